#!/usr/bin/env bash
# Interoperability: the clients of Go, Python, Node, curl, nghttp and h2load, in clear text and over TLS, through Weir to Go's net/http (HTTP/1.1,
# HTTP/2 in clear text and over TLS), nghttpd and nginx. Bodies are compared byte by byte.
suite=clients
source "$(dirname "$0")/common.sh"
need curl nghttp h2load nghttpd nginx
need_program node "Node.js 20 or newer runs this part of the tests."
python=$(need_venv conformance "$here/requirements.txt")/bin/python
ca=$tmp/ca.pem

# before NAME URL PROTOCOL: a gateway with this upstream.
before() {
  local tls=
  case $2 in https:*) tls=", tls: {roots: $ca}" ;; esac
  gateway "$1" <<YAML
$(listeners)
upstreams: {app: {targets: ["$2"], protocol: $3$tls}}
routes: [{match: {path: /*}, trailers: forward, upstream: app}]
YAML
}

go_client() { "$go_programs/peers" client "$@"; }
# whole NAME: what every client does against an upstream with all of the cases.
whole() {
  step "go-h1-$1" go_client -url "$plain" -protocol h1
  step "go-h2c-$1" go_client -url "$plain" -protocol h2c
  step "go-h2-$1" go_client -url "$secure" -ca "$ca" -protocol h2
  step "python-h1-$1" "$python" "$here/clients/client.py" "$plain" - h1
  step "python-h2c-$1" "$python" "$here/clients/client.py" "$plain" - h2c
  step "python-h2-$1" "$python" "$here/clients/client.py" "$secure" "$ca" h2
  step "node-h2c-$1" node "$here/clients/client.mjs" "$plain" -
  step "node-h2-$1" node "$here/clients/client.mjs" "$secure" "$ca"
  one "curl-post-$1" curl_post
  files "$1"
}
# files NAME: the same for what only serves files.
files() {
  step "go-h2c-files-$1" go_client -url "$plain" -protocol h2c -files
  step "go-h2-files-$1" go_client -url "$secure" -ca "$ca" -protocol h2 -files
  one "curl-$1" curl_get
  one "nghttp-$1" nghttp_get
  one "h2load-clear-text-$1" h2load_all "$plain"
  one "h2load-tls-$1" h2load_all "$secure"
}
# The pattern of the peers, as files that nghttpd and nginx serve.
mkdir -p "$tmp/files/bytes"
for size in 1000 300000 33554432; do
  python3 -c "import sys; n = $size; sys.stdout.buffer.write((bytes(range(251)) * (n // 251 + 1))[:n])" >"$tmp/files/bytes/$size"
done
chmod -R a+rX "$tmp"
h2() { curl -sS -m 60 --cacert "$ca" "$@"; }
curl_get() {
  h2 --http2-prior-knowledge "$plain/bytes/300000" | cmp - "$tmp/files/bytes/300000" && h2 --http2 "$secure/bytes/33554432" | cmp - "$tmp/files/bytes/33554432" &&
    [ "$(h2 --http2 -o "$tmp/got" -w '%{http_version} %{http_code}' "$secure/bytes/1000")" = "2 200" ]
}
curl_post() {
  local body=$tmp/files/bytes/300000
  h2 --http2-prior-knowledge --data-binary "@$body" "$plain/echo" | cmp - "$body" && h2 --http2 --data-binary "@$body" "$secure/echo" | cmp - "$body" &&
    h2 --http2 -T - "$secure/echo" <"$body" | cmp - "$body"
}
nghttp_get() {
  nghttp --no-verify-peer "$plain/bytes/300000" | cmp - "$tmp/files/bytes/300000" && nghttp --no-verify-peer "$secure/bytes/300000" | cmp - "$tmp/files/bytes/300000"
}
# 8 connections with 50 streams each, small windows, 4,000 requests: all succeed.
h2load_all() {
  h2load -n 4000 -c 8 -m 50 -w 16 -W 18 "$1/bytes/1000" >"$tmp/h2load" 2>&1
  cat "$tmp/h2load"
  grep -q '4000 succeeded, 0 failed, 0 errored' "$tmp/h2load" && grep -q 'status codes: 4000 2xx' "$tmp/h2load"
}

upstream go
before to-go-http1 "$url" http1; whole go-http1
before to-go-h2c "$url" http2; whole go-h2c
upstream go-tls -cert "$tmp/localhost.pem" -key "$tmp/localhost.key"
before to-go-h2 "$url" http2; whole go-h2
before to-go-auto "$url" auto; files go-auto

port=$(free_port)
nghttpd -a 127.0.0.1 --no-tls -d "$tmp/files" "$port" >"$tmp/nghttpd.out" 2>&1 &
started+=($!)
listens "$port"
before to-nghttpd "http://127.0.0.1:$port" http2; files nghttpd-h2c
port=$(free_port)
nghttpd -a 127.0.0.1 -d "$tmp/files" "$port" "$tmp/localhost.key" "$tmp/localhost.pem" >"$tmp/nghttpd-tls.out" 2>&1 &
started+=($!)
listens "$port"
before to-nghttpd-tls "https://127.0.0.1:$port" http2; files nghttpd-h2

clear=$(free_port) tls=$(free_port)
start_nginx "$tls" <<NGINX
  root $tmp/files;
  server { listen 127.0.0.1:$clear; }
  server { listen 127.0.0.1:$tls ssl http2; ssl_certificate $tmp/localhost.pem; ssl_certificate_key $tmp/localhost.key; }
NGINX
before to-nginx "http://127.0.0.1:$clear" http1; files nginx-http1
before to-nginx-tls "https://127.0.0.1:$tls" http2; files nginx-h2
count_line "$passed" "$failed" "$skipped"
exit "$code"
