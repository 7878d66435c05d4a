#!/usr/bin/env python3
"""Writes the dashboards: `weir-NAME.json` from NAME.toml, for each. `--check` fails if one is not current.

A row has a title and panels. A panel is `title | unit | kind`, its meaning, and pairs of legend and expression. In expressions `@` stands
for the job and the instances that are chosen at the top of the dashboard. Units are Grafana's; kinds are `timeseries`, `stat` and `table`.
"""

import json
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "${source}"}
CHOSEN = 'job=~"$job",instance=~"$instance"'
HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8}


def variable(name, query, label):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def panel(number, given, x, y, width):
    title, unit, kind = (part.strip() for part in given["panel"].split("|"))
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": expression.strip().replace("@", CHOSEN),
            "legendFormat": legend,
            **({"format": "table", "instant": True} if kind == "table" else {}),
        }
        for index, (legend, expression) in enumerate(given["show"])
    ]
    return {
        "id": number,
        "type": kind,
        "title": title,
        "description": given["meaning"],
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": HEIGHTS[kind]},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def dashboard(name, source):
    panels, y, number = [], 0, 0
    for row in source["row"]:
        number += 1
        panels.append(
            {"id": number, "type": "row", "title": row["title"], "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}
        )
        y += 1
        width = 24 // len(row["panels"])
        for position, given in enumerate(row["panels"]):
            number += 1
            panels.append(panel(number, given, position * width, y, width))
        y += max(one["gridPos"]["h"] for one in panels[-len(row["panels"]) :])
    chosen = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": f"weir-{name}",
        "title": source["title"],
        "description": source["description"],
        "tags": ["weir"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Weir", "tags": ["weir"], "asDropdown": True, "keepTime": True}],
        "templating": {
            "list": [
                chosen,
                variable("job", "label_values(weir_build_info, job)", "Job"),
                variable("instance", 'label_values(weir_build_info{job=~"$job"}, instance)', "Instance"),
            ]
        },
        "panels": panels,
    }


def main():
    old = []
    for file in sorted(HERE.glob("*.toml")):
        text = json.dumps(dashboard(file.stem, tomllib.loads(file.read_text())), indent=1) + "\n"
        target = HERE / f"weir-{file.stem}.json"
        if "--check" not in sys.argv:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            old.append(target.name)
    if old:
        sys.exit(f"not current: {', '.join(old)}; run deploy/grafana/render.py")


if __name__ == "__main__":
    main()
