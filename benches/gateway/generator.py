"""Load by gauge's generator, on the core that load and upstream share."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import rig

USERS = {"users": 64, "duration": "1s"}


@dataclass
class Load:
    """What one run saw. Errors are requests without a response; what a status means is the caller's to say."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    statuses: dict[int, int]
    errors: dict[str, int]
    figures: dict  # all that gauge wrote

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def failures(self) -> list[str]:
        """Every request that got no response, and every response that is not 2xx."""
        other = [f"{count} responses of {status}" for status, count in self.statuses.items() if status // 100 != 2]
        return [f"{count} x {kind}" for kind, count in self.errors.items()] + other


class Running:
    """A generator at work: `plan` is `closed` or `open` of a workload (docs/load.md), `workload` what else it holds, `operation` what is requested
    beside the path. Chat calls (`llm` in the workload) take the place of the operation."""

    def __init__(
        self,
        port: int,
        path: str = "/",
        plan: dict | None = None,
        workload: dict | None = None,
        core: str = rig.LOAD_CORE,
        **operation: object,
    ) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="weir-load-")
        file, self.result = (Path(self.folder.name) / name for name in ("workload.json", "result.json"))
        # Which statuses are right is not the generator's to judge here: all are counted.
        sent = {"id": "it", "path": path, "expect": ["1xx", "2xx", "3xx", "4xx", "5xx"], **operation}
        whole = {"base": f"http://127.0.0.1:{port}", "load": plan or {"closed": USERS}, **(workload or {})}
        if "llm" not in whole:
            whole["operations"] = [sent]
        file.write_text(json.dumps(whole))
        command = [rig.need("gauge", "scripts/bench builds it"), "load", "--workload", str(file), "--threads", "1"]
        self.process = subprocess.Popen(
            ["taskset", "-c", core, *command, "--quiet", "--json", str(self.result)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> Load:
        said = self.process.communicate()[1]
        if not self.result.exists():
            raise RuntimeError(f"gauge load ended with {self.process.returncode}: {said}")
        figures = json.loads(self.result.read_text())
        total = figures["total"]
        self.folder.cleanup()
        return Load(
            total["requests"]["responses"],
            total["duration_s"],
            total["latency"]["p50_ms"] * 1e3,
            total["latency"]["p99_ms"] * 1e3,
            {int(status): count for status, count in total["statuses"].items()},
            {kind: count for kind, count in total["errors"].items() if count and kind not in ("status", "total")},
            figures,
        )


def load(
    port: int,
    path: str = "/",
    plan: dict | None = None,
    workload: dict | None = None,
    core: str = rig.LOAD_CORE,
    **operation: object,
) -> Load:
    """Loads one server for the time of its plan: 64 users for a second, unless told."""
    return Running(port, path, plan, workload, core, **operation).finish()
