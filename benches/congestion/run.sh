# shellcheck shell=bash disable=SC2154
# Bodies of a megabyte through gateways under two congestion controls of TCP: what the pacing of bbr costs, also on loopback. Sets the machine's for the time
# and puts it back, so it needs root.
need_measured
need_peers
need_program go "Go 1.26 or newer builds Fiber's gateway: https://go.dev/doc/install"
setting=/proc/sys/net/ipv4/tcp_congestion_control
[ -w "$setting" ] || die "only root may set the congestion control of TCP ($setting)"
before=$(cat "$setting")
trap 'echo "$before" >"$setting"' EXIT
for control in cubic bbr; do
  echo "$control" >"$setting" || die "this kernel does not have '$control': modprobe tcp_$control"
  gauge run benches/congestion/bodies.yaml --out "$out/$control" "$@"
done
