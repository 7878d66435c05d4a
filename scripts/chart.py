#!/usr/bin/env python3
"""Draws docs/images/cpu-per-request.svg from the committed results of `scripts/bench gateway`: chart.py [--check]

--check writes nothing and exits with 1 when the picture is not the one that the results give.
"""

import json
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches/runs/2026-11-26-vm/gateway/results.json"
PICTURE = ROOT / "docs/images/cpu-per-request.svg"
NAMES = {"nginx": "nginx", "haproxy": "HAProxy", "fiber": "Fiber (Go)", "envoy": "Envoy"}
LEFT, UNIT, ROW, TOP, WIDTH = 110, 72, 34, 66, 720

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; font-size: 16px; } .note { font-size: 12px; fill: #59636e; }
  .bar { fill: #8c959f; } .weir { fill: #0969da; } .range { stroke: #1f2328; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .note { fill: #9198a1; } .bar { fill: #656c76; } .weir { fill: #4493f8; } .range { stroke: #f0f6fc; }
  }
"""


def version(text: str) -> str:
    """The number in what a program says of itself."""
    words = text.replace("/", " ").split()
    return next(word.split("-")[0] for word in words if word[0].isdigit() and word.count(".") >= 2)


def bar(row: int, name: str, figure: str, ratio: float, low: float, high: float, kind: str) -> str:
    y = TOP + row * ROW
    middle = y + 11
    line = (
        f'<line class="range" x1="{LEFT + low * UNIT:.1f}" y1="{middle}" x2="{LEFT + high * UNIT:.1f}" y2="{middle}"/>'
        if high > low
        else ""
    )
    return (
        f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{ratio * UNIT:.1f}" height="22" rx="2"/>{line}'
        f'<text x="{LEFT + max(ratio, high) * UNIT + 8:.1f}" y="{y + 16}">{escape(figure)}</text>'
    )


def picture(results: dict) -> str:
    # HAProxy in TCP mode passes bytes on and does not read HTTP.
    rows = [row for row in results["cpu"] if row["row"] == "proxied GET, 64 connections" and row["second"] in NAMES]
    own = sorted(row["cpu_us"][0] for row in rows)
    bars = [bar(0, "Weir", f"1 ({own[0]:.1f} to {own[-1]:.1f} µs)", 1, 1, 1, "weir")]
    versions = []
    for number, row in enumerate(rows, 1):
        ratio, low, high = (1 / row[key] for key in ("ratio", "ratio_max", "ratio_min"))
        bars.append(
            bar(number, NAMES[row["second"]], f"{ratio:.2f} ({row['cpu_us'][1]:.1f} µs)", ratio, low, high, "bar")
        )
        versions.append(f"{NAMES[row['second']]} {version(row['versions'][1])}")
    height = TOP + (len(rows) + 1) * ROW + 44
    environment = results["environment"]
    notes = [
        f"Median of {rows[0]['rounds']} paired rounds; lines: lowest and highest round. 64 connections, small JSON, one core.",
        f"{', '.join(versions)}. {environment['cores']} cores, {environment['date']}, commit {environment['commit']}.",
    ]
    below = "".join(
        f'<text class="note" x="12" y="{height - 26 + 17 * line}">{escape(note)}</text>'
        for line, note in enumerate(notes)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="CPU time of the gateway per proxied request, relative to Weir">\n<style>{STYLE}</style>\n'
        f'<text class="title" x="12" y="24">CPU time of the gateway per proxied request</text>\n'
        f'<text class="note" x="12" y="44">Relative to Weir; less is better</text>\n'
        + "\n".join(bars)
        + f"\n{below}\n</svg>\n"
    )


def main() -> int:
    drawn = picture(json.loads(RESULTS.read_text()))
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(drawn)
    elif PICTURE.read_text() != drawn:
        print(f"{PICTURE.relative_to(ROOT)} is not what {RESULTS.relative_to(ROOT)} gives: run scripts/chart.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
