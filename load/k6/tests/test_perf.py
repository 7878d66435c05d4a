"""The comparison: which two runs it compares, and which it refuses."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("perf", Path(__file__).parents[1] / "perf.py")
perf = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(perf)


def summary(rate, hit_ratio, *, old_form=False, gateway=None):
    """A summary of k6, as handleSummary has it or as --summary-export writes it."""
    metrics = {
        "http_reqs": {"count": 100, "rate": rate},
        "http_req_duration": {"avg": 9, "min": 1, "med": 8, "max": 20, "p(90)": 12, "p(95)": 14, "p(99)": 18},
        "http_req_failed": {"value" if old_form else "rate": 0.01, "passes": 1, "fails": 99},
    }
    if hit_ratio is not None:
        metrics["cache_hit"] = {"value" if old_form else "rate": hit_ratio, "passes": 0, "fails": 0}
    if not old_form:
        metrics = {name: {"type": "trend", "contains": "default", "values": values} for name, values in metrics.items()}
    return {"metrics": metrics, "gateway": gateway}


def write(folder, baseline, cached):
    (folder / "baseline.json").write_text(json.dumps(baseline))
    (folder / "cached.json").write_text(json.dumps(cached))


@pytest.mark.parametrize("old_form", [False, True])
def test_both_forms_of_a_summary_are_read(tmp_path, capsys, old_form):
    usage = {"cpu_percent": 50.0, "memory_mib": 10.0}
    write(
        tmp_path,
        summary(300, 0, old_form=old_form, gateway=usage),
        summary(900, 0.75, old_form=old_form, gateway=usage | {"cpu_percent": 25.0}),
    )
    perf.report(tmp_path)
    result = json.loads((tmp_path / "comparison.json").read_text())
    assert list(result) == ["generated_at", "baseline", "cached", "delta_pct"]
    assert result["baseline"]["rps"] == 300
    assert result["baseline"]["errors_percent"] == 1
    assert result["cached"]["hit_ratio"] == 0.75
    assert result["delta_pct"] == pytest.approx(
        {
            "rps": 200, "p50_ms": 0, "p90_ms": 0, "p95_ms": 0, "p99_ms": 0,
            "errors_percent": 0, "cpu_percent": -50, "memory_mib": 0, "hit_ratio": None,
        }
    )  # fmt: skip
    rows = list(csv.reader((tmp_path / "comparison.csv").open()))
    assert rows[0] == ["metric", "baseline", "cached", "delta_pct"]
    assert ["rps", "300", "900", "200"] in rows
    assert "| requests/s | 300 | 900 | +200.0 |" in (tmp_path / "comparison.md").read_text()
    assert "75.0 %" in capsys.readouterr().out


def test_what_was_not_measured_is_empty_and_not_0(tmp_path):
    write(tmp_path, summary(300, 0), summary(900, 0.75))
    perf.report(tmp_path)
    result = json.loads((tmp_path / "comparison.json").read_text())
    assert result["baseline"]["cpu_percent"] is None
    assert result["delta_pct"]["cpu_percent"] is None
    assert "| CPU, % of a core |  |  |  |" in (tmp_path / "comparison.md").read_text()


@pytest.mark.parametrize(
    ("baseline", "cached", "says"),
    [
        (summary(300, 0.01), summary(900, 0.75), "the baseline was run with the cache on"),
        (summary(300, 0), summary(300, 0), "the cached run was run with the cache off"),
        (summary(300, None), summary(900, 0.75), "whether the cache was on cannot be known"),
        ({"metrics": {}}, summary(900, 0.75), "is no summary of k6"),
    ],
)
def test_two_runs_that_do_not_differ_are_refused(tmp_path, baseline, cached, says):
    write(tmp_path, baseline, cached)
    with pytest.raises(perf.NotValid, match=says):
        perf.report(tmp_path)
    assert not (tmp_path / "comparison.json").exists()


def test_a_summary_that_is_not_there_or_not_json(tmp_path):
    with pytest.raises(perf.NotValid, match="make perf-baseline"):
        perf.report(tmp_path)
    write(tmp_path, summary(1, 0), summary(1, 1))
    (tmp_path / "cached.json").write_text("{")
    with pytest.raises(perf.NotValid, match="is not JSON"):
        perf.report(tmp_path)
