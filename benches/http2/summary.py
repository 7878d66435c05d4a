"""Instructions per exchange from counts.csv: the difference of two lengths leaves the start out."""

import csv
import sys
from pathlib import Path

with (Path(sys.argv[1]) / "counts.csv").open() as file:
    counts = {(row["codec"], int(row["exchanges"])): int(row["instructions"]) for row in csv.DictReader(file)}
per = {codec: (counts[codec, 3000] - counts[codec, 1000]) / 2000 for codec in ("ours", "h2")}
print("# HTTP/2 codec: instructions per exchange\n")
print(
    "A request with ten fields and a response with ten fields and 512 bytes, each encoded and decoded; callgrind, release build.\n"
)
print("| codec | instructions |\n|---|---|")
print(f"| crates/http2 | {per['ours']:,.0f} |\n| h2 0.4.20 | {per['h2']:,.0f} |\n")
print(
    f"Ratio {per['ours'] / per['h2']:.3f}; the bar is 0.5. The figure of the h2 crate includes building its header maps, which its"
)
print(
    "interface demands, and its tasks over a pipe in memory; crates/http2 has no task and no pipe. Command: `scripts/bench http2`."
)
