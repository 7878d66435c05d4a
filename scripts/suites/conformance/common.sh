# shellcheck shell=bash
# Sourced by the suites of this folder: certificates, an upstream, and a gateway in front of it. `suite` is set before.
source "$(dirname "${BASH_SOURCE[0]}")/../../suite.sh"
source "$root/scripts/lib-services.sh"
here=$root/scripts/suites/conformance
need openssl
need_weir

# certificate NAME SUBJECTALTNAME [OPTION...]: NAME.pem and NAME.key in $tmp, signed by the suite's authority ($tmp/ca.pem).
certificate() {
  local name=$1 names=$2
  shift 2
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$tmp/$name.key" -out "$tmp/$name.csr" 2>/dev/null
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" >"$tmp/$name.ext"
  openssl x509 -req -in "$tmp/$name.csr" -CA "$tmp/ca.pem" -CAkey "$tmp/ca.key" -CAcreateserial -days 2 "$@" -extfile "$tmp/$name.ext" -out "$tmp/$name.pem" 2>/dev/null ||
    die "openssl could not sign the certificate of $name"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=authority of the tests" -addext keyUsage=keyCertSign,cRLSign \
  -keyout "$tmp/ca.key" -out "$tmp/ca.pem" 2>/dev/null
certificate localhost DNS:localhost,IP:127.0.0.1

# gateway NAME: Weir with the configuration on standard input. The URL of its first clear-text listener is then in $plain, that of its first TLS
# listener in $secure; a configuration has both, in this order.
gateway() {
  local name=$1 out=$tmp/$1.out
  cat >"$tmp/$name.yaml"
  # There when it is read for the first time.
  : >"$out"
  "$weir" --config "$tmp/$name.yaml" >"$out" 2>&1 &
  started+=($!)
  gateway_pid=$!
  for _ in $(seq 600); do
    plain=$(sed -nE 's/^listening on (http:.*)$/\1/p' "$out" | head -n 1)
    secure=$(sed -nE 's/^listening on (https:.*)$/\1/p' "$out" | head -n 1)
    [ -z "$plain" ] || [ -z "$secure" ] || return 0
    kill -0 "$gateway_pid" 2>/dev/null || break
    sleep 0.1
  done
  die "$name did not start: $(tail -n 20 "$out")"
}
port_of() { printf '%s\n' "${1##*:}"; }
# listeners: those that `gateway` expects, as lines of a configuration.
listeners() {
  cat <<YAML
listen:
  - {bind: 127.0.0.1:0, http2: prior_knowledge}
  - bind: 127.0.0.1:0
    tls: {certificates: [{cert: $tmp/localhost.pem, key: $tmp/localhost.key, default: true}]}
YAML
}
# upstream NAME [OPTION...]: the upstream on Go's net/http; its URL is then in $url.
upstream() {
  local name=$1
  shift
  need_go_programs "$here/peers" weir.dev/conformance/peers
  start "$name" '' "$go_programs/peers" upstream "$@"
}
# start_nginx PORT: nginx with the body of an `http` block on standard input, which listens on this port.
start_nginx() {
  {
    [ "$(id -u)" != 0 ] || echo "user root;"
    printf 'worker_processes 1;\npid %s/nginx.pid;\nerror_log %s/nginx.log;\nevents { worker_connections 1024; }\nhttp {\n  access_log off;\n' "$tmp" "$tmp"
    cat
    echo "}"
  } >"$tmp/nginx.conf"
  nginx -c "$tmp/nginx.conf" -e "$tmp/nginx.log" -g 'daemon off;' >"$tmp/nginx.out" 2>&1 &
  started+=($!)
  listens "$1"
}
# free_port: nghttpd and nginx do not say which port they chose; a port that was free a moment ago.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# listens PORT
listens() {
  for _ in $(seq 300); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  die "nothing listens on port $1"
}
