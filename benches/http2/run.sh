# shellcheck shell=bash disable=SC2154
# Instructions of an HTTP/2 exchange, our codec against the h2 crate: sourced by scripts/bench. Counts, not times: load does not matter.
need valgrind
cargo build --release --locked -p http2 --example transcript
mkdir -p "$out"
count() { # CODEC EXCHANGES
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$CARGO_TARGET_DIR/release/examples/transcript" "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : *//p'
}
{
  echo "codec,exchanges,instructions"
  for codec in ours h2; do
    for exchanges in 1000 3000; do echo "$codec,$exchanges,$(count "$codec" "$exchanges")"; done
  done
} | tee "$out/counts.csv"
python3 benches/http2/summary.py "$out" | tee "$out/summary.md"
