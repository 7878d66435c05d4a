#!/usr/bin/env bash
# Translation: requests in raw frames of HTTP/2, and in HTTP/1.1, are forwarded to an HTTP/1.1 upstream, and what arrives is read by Go's net/http,
# llhttp (Node) and nginx: each reads exactly the requests that the documents say. See translation/run_requests.py; translation/run_recorded.py has upstreams over
# HTTP/2 and over TLS, and translation/run_responses.py the other direction. Arguments go to all: --seed, --cases, --only PART/NAME, as a failure names them.
suite=translation
source "$(dirname "$0")/common.sh"
need nginx
need_program node "Node.js 20 or newer runs this part of the tests."
python=$(need_venv conformance "$here/requirements.txt")/bin/python
need_go_programs "$here/peers" weir.dev/conformance/peers
start go-reader '' "$go_programs/peers" reader; go_reader=$url
start node-reader '' node "$here/translation/reader.mjs"; node_reader=$url
# nginx sends on what it has read, as it has read it; its own upstream is another reader of Go.
start nginx-upstream '' "$go_programs/peers" reader
chmod a+rx "$tmp"
port=$(free_port)
start_nginx "$port" <<NGINX
  client_body_temp_path $tmp/bodies;
  client_max_body_size 0;
  client_header_buffer_size 64k;
  large_client_header_buffers 8 128k;
  # Fields that nginx would leave out silently are what is looked for.
  ignore_invalid_headers off;
  underscores_in_headers on;
  upstream reader { server ${url#http://}; keepalive 8; }
  server {
    listen 127.0.0.1:$port;
    location / {
      proxy_pass http://reader;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$http_host;
      proxy_buffer_size 512k;
      proxy_buffers 4 512k;
      proxy_busy_buffers_size 512k;
    }
  }
NGINX
step requests "$python" "$here/translation/run_requests.py" "$weir" "$tmp/requests" \
  --reader "go=$go_reader" --reader "node=$node_reader" --reader "nginx=http://127.0.0.1:$port" "$@"
grep -E '^ok' "$logs/$suite-requests.log" || true
certificate translation DNS:a.example,DNS:b.example,DNS:a
step recorded "$python" "$here/translation/run_recorded.py" "$weir" "$tmp/recorded" --peers "$go_programs/peers" --tls "$tmp" "$@"
grep -E '^ok' "$logs/$suite-recorded.log" || true
step responses "$python" "$here/translation/run_responses.py" "$weir" "$tmp/responses" "$@"
grep -E '^ok' "$logs/$suite-responses.log" || true
step responses-of-http2 "$python" "$here/translation/run_responses.py" "$weir" "$tmp/responses-of-http2" --hop http2 "$@"
grep -E '^ok' "$logs/$suite-responses-of-http2.log" || true
count_line "$passed" "$failed" "$skipped"
exit "$code"
