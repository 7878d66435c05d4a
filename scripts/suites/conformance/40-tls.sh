#!/usr/bin/env bash
# TLS from outside: testssl.sh finds nothing against a listener; a matrix of `openssl s_client` over versions, cipher suites, groups, names, ALPN,
# client certificates and resumption; handshakes in which one thing is wrong (tls/run.py); upstreams whose certificate is wrong are refused, with the
# reason in the response.
suite=tls
source "$(dirname "$0")/common.sh"
need testssl
certificate other DNS:other.example.com
certificate mesh DNS:mesh.example.com
certificate client DNS:client.example.com
# A validity in the past: `x509 -days -1` is one that ended yesterday.
certificate expired DNS:localhost,IP:127.0.0.1 -days -1
certificate wrong-name DNS:other.example.com
certificate no-address DNS:localhost
# An authority of its own, and a client of it.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=stranger -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
  -addext basicConstraints=critical,CA:FALSE -keyout "$tmp/stranger.key" -out "$tmp/stranger.pem" 2>/dev/null
gateway weir <<YAML
listen:
  - {bind: 127.0.0.1:0, http2: prior_knowledge}
  - bind: 127.0.0.1:0
    tls:
      certificates:
        - {cert: $tmp/localhost.pem, key: $tmp/localhost.key, default: true}
        - {cert: $tmp/other.pem, key: $tmp/other.key, hosts: [other.example.com]}
        - {cert: $tmp/mesh.pem, key: $tmp/mesh.key, hosts: [mesh.example.com], client_auth: {ca: $tmp/ca.pem, mode: required}}
routes: [{match: {path: /*}, respond: {body: hello}}]
YAML
port=$(port_of "$secure")

# client NAME OPTION...: one request with this SNI (- for none); what s_client and the gateway say is printed.
client() {
  local name=$1 sni=(-noservername)
  shift
  [ "$name" = - ] || sni=(-servername "$name")
  [ "$name" != - ] || name=localhost
  printf 'GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$name" |
    timeout 20 openssl s_client -connect "127.0.0.1:$port" "${sni[@]}" -CAfile "$tmp/ca.pem" -ign_eof "$@" 2>&1 || true
}
# says TEXT NAME OPTION...: the client's output has TEXT; the request was served.
served() {
  local text=$1 said
  shift
  said=$(client "$@")
  grep -qF "HTTP/1.1 200" <<<"$said" && grep -qF -- "$text" <<<"$said" || { say "$said" "expected a 200 and: $text"; return 1; }
}
# ends TEXT NAME OPTION...: the handshake fails, and the client says TEXT.
ends() {
  local text=$1 said
  shift
  said=$(client "$@")
  ! grep -qF "HTTP/1.1 " <<<"$said" && grep -qF -- "$text" <<<"$said" || { say "$said" "expected no response and: $text"; return 1; }
}
# misdirected NAME: the client gets a certificate, but its request, for a host that this does not cover, gets 421.
misdirected() { grep -F "HTTP/1.1 421" <<<"$(client "$1")"; }
old='DEFAULT@SECLEVEL=0'
one tls1.3 served 'TLSv1.3' localhost -tls1_3
one tls1.2 served 'TLSv1.2' localhost -tls1_2
one tls1.1-is-refused ends 'alert protocol version' localhost -tls1_1 -cipher "$old"
one tls1.0-is-refused ends 'alert protocol version' localhost -tls1 -cipher "$old"
for cipher in ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305; do
  one "$cipher" served "$cipher" localhost -tls1_2 -cipher "$cipher"
done
for cipher in ECDHE-ECDSA-AES128-SHA256 ECDHE-ECDSA-AES256-SHA AES128-GCM-SHA256 DHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES128-CCM; do
  one "$cipher-is-refused" ends 'handshake failure' localhost -tls1_2 -cipher "$cipher:@SECLEVEL=0"
done
for cipher in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
  one "$cipher" served "$cipher" localhost -tls1_3 -ciphersuites "$cipher"
done
one TLS_AES_128_CCM_SHA256-is-refused ends 'handshake failure' localhost -tls1_3 -ciphersuites TLS_AES_128_CCM_SHA256
for group in X25519 P-256 P-384; do one "$group" served 'Verify return code: 0' localhost -groups "$group"; done
for group in P-521 ffdhe2048 X448; do one "$group-is-refused" ends 'handshake failure' localhost -tls1_3 -groups "$group"; done

one name-of-the-default served 'subject=CN = localhost' localhost
one another-name served 'subject=CN = other' other.example.com -verify_hostname other.example.com
one no-name-gets-the-default served 'subject=CN = localhost' -
one unknown-name-gets-the-default ends 'certificate verify failed' nobody.example.com -verify_hostname nobody.example.com -verify_return_error
one request-of-an-unknown-name misdirected nobody.example.com
one alpn-http-1.1 served 'ALPN protocol: http/1.1' localhost -alpn http/1.1
one alpn-of-nothing-known ends 'no application protocol' localhost -alpn spdy/3
one no-early-data served 'Max Early Data: 0' localhost -tls1_3
one no-compression served 'Compression: NONE' localhost

one no-client-certificate-tls1.3 ends 'alert certificate required' mesh.example.com -tls1_3
one no-client-certificate-tls1.2 ends 'alert' mesh.example.com -tls1_2
one client-certificate served 'subject=CN = mesh' mesh.example.com -cert "$tmp/client.pem" -key "$tmp/client.key"
one client-certificate-of-a-stranger ends 'alert unknown ca' mesh.example.com -cert "$tmp/stranger.pem" -key "$tmp/stranger.key"
one client-certificate-expired ends 'alert certificate expired' mesh.example.com -cert "$tmp/expired.pem" -key "$tmp/expired.key"

# resumes VERSION: the second connection resumes the session of the first.
resumes() {
  client localhost "$1" -sess_out "$tmp/session$1" >"$tmp/first"
  grep -qF 'New, ' "$tmp/first" && served 'Reused, ' localhost "$1" -sess_in "$tmp/session$1"
}
one resumption-tls1.3 resumes -tls1_3
one resumption-tls1.2 resumes -tls1_2
# A session without a client certificate opens no host that demands one.
other_host() { ends 'alert' mesh.example.com "$1" -sess_in "$tmp/session$1"; }
one no-resumption-into-client-authentication-tls1.3 other_host -tls1_3
one no-resumption-into-client-authentication-tls1.2 other_host -tls1_2

# renegotiation: "R" on a line of its own starts one in s_client.
renegotiation() {
  local said
  said=$( (printf 'R\n'; sleep 1) | timeout 20 openssl s_client -connect "127.0.0.1:$port" -servername localhost -tls1_2 2>&1 || true)
  grep -qE 'no renegotiation|unexpected message|alert' <<<"$said" || { say "$said"; return 1; }
}
one no-renegotiation renegotiation

python=$(need_venv conformance "$here/requirements.txt")/bin/python
step handshakes "$python" "$here/tls/run.py" "127.0.0.1:$port" "$tmp"

# Upstreams: refuses CERTIFICATE HOST REASON: nothing is served, and the response says why.
refuses() {
  local certificate=$1 host=$2 reason=$3 said url plain secure
  upstream "upstream-$certificate-$host" -cert "$tmp/$certificate.pem" -key "$tmp/$certificate.key"
  gateway "to-$certificate-$host" <<YAML
$(listeners)
upstreams: {app: {targets: ["https://$host:${url##*:}"], tls: {roots: $tmp/ca.pem}}}
routes: [{match: {path: /*}, upstream: app}]
YAML
  said=$(curl -sS -m 20 -i "$plain/")
  grep -qF "$reason" <<<"$said" || { say "$said" "expected: $reason"; return 1; }
}
need curl
one upstream-is-trusted refuses localhost localhost 'HTTP/1.1 200'
one upstream-by-its-address refuses localhost 127.0.0.1 'HTTP/1.1 200'
one upstream-expired refuses expired localhost 'certificate has expired'
one upstream-of-another-name refuses wrong-name localhost 'not for this name'
one upstream-self-signed refuses stranger localhost 'not issued by a trusted authority'
one upstream-without-its-address refuses no-address 127.0.0.1 'not for this name'

# testssl.sh: every finding above INFO is a failure. The certificate is one of this suite's, so what it says about authorities and validity is left out.
scan() {
  timeout 600 testssl --quiet --color 0 --warnings batch --jsonfile "$tmp/testssl.json" --add-ca "$tmp/ca.pem" --ip 127.0.0.1 "localhost:$port" || true
  python3 "$here/testssl.py" "$tmp/testssl.json"
}
step testssl scan
count_line "$passed" "$failed" "$skipped"
exit "$code"
