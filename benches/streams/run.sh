# shellcheck shell=bash disable=SC2154
# Streams of events: time to the first byte, and 512 streams at once. The program is crates/weir/benches/streams.rs.
need nginx
mkdir -p "$out"
{
  printf '# Streams of events\n\nMade by `scripts/bench streams` at commit %s.\n\n' "$(git rev-parse --short HEAD)"
  cargo bench -q --locked -p weir --bench streams
} | tee "$out/summary.md"
