"""gauge's calls of gRPC against ghz and k6: requests per CPU-second of the generator.

Unary calls of `gauge.demo.Items/Get` in a closed loop of 64, over as many connections as the peer has: four with ghz, one for each user with k6. gauge
and a peer alternate within each round; the median of the ratios counts. CPU time is that of the whole process, from the kernel (wait4). The generator runs
on one core, the server, that of `gauge demo`, on the other. A run with an error does not count: it ends the bench.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
import rig
from record import environment, save

PROTO = rig.ROOT / "examples/evaluations/grpc.proto"
USERS, CONNECTIONS = 64, 4
LOAD_CORE, SERVER_CORE = "1", "0"
# Requests per CPU-second of gauge, in those of the peer.
BARS = {"ghz": 1.5, "k6": 3.0}
K6 = """import grpc from 'k6/net/grpc';
import { Counter } from 'k6/metrics';
export const options = { vus: USERS, duration: 'SECONDSs' };
const failed = new Counter('failed');
const client = new grpc.Client();
client.load(['FOLDER'], 'grpc.proto');
let connected = false;
export default function () {
  if (!connected) { client.connect('ADDRESS', { plaintext: true }); connected = true; }
  const response = client.invoke('gauge.demo.Items/Get', { id: 7 });
  if (response.status !== grpc.StatusOK) failed.add(1);
}
export function handleSummary(data) { return { 'OUT': JSON.stringify(data) }; }
"""


def run(command: list[str], folder: Path) -> tuple[str, float]:
    """Standard output of a command on the generator's core, and its CPU seconds."""
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(["taskset", "-c", LOAD_CORE, *command], cwd=folder, stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said = (folder / "err").read_text()[-500:]
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said}")
        return (folder / "out").read_text(), used.ru_utime + used.ru_stime


class Bench:
    def __init__(self, folder: Path, seconds: int) -> None:
        self.folder, self.seconds = folder, seconds
        self.gauge, self.port = rig.need("gauge", "scripts/bench builds it"), rig.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.server = subprocess.Popen(
            ["taskset", "-c", SERVER_CORE, self.gauge, "demo", "--listen", self.address], stdout=subprocess.DEVNULL
        )
        rig.wait_for(self.port)

    def stop(self) -> None:
        self.server.terminate()
        self.server.wait()

    def calls(self, tool: str, peer: str) -> tuple[int, float]:
        """Calls that ended with OK, and CPU seconds."""
        return {"gauge": self.by_gauge, "ghz": self.by_ghz, "k6": self.by_k6}[tool](peer)

    def by_gauge(self, peer: str) -> tuple[int, float]:
        streams = 1 if peer == "k6" else USERS // CONNECTIONS
        method = ["--grpc", "gauge.demo.Items/Get", "--proto", str(PROTO), "--body", '{"id":7}']
        load = ["-c", str(USERS), "--streams", str(streams), "-t", "1", "-d", f"{self.seconds}s", "-q", "--json", "-"]
        out, cpu = run([self.gauge, "load", f"http://{self.address}", *method, *load], self.folder)
        total = json.loads(out)["total"]
        if total["errors"]["total"]:
            raise RuntimeError(f"errors of gauge: {total['errors']}")
        return total["requests"]["responses"], cpu

    def by_ghz(self, _: str) -> tuple[int, float]:
        # Its templates are off: they would cost it time for nothing.
        out, cpu = run(
            [
                *(os.environ.get("GHZ", "ghz"), "--insecure", "--proto", str(PROTO), "--call", "gauge.demo.Items.Get"),
                *("-d", '{"id":7}', "--disable-template-functions", "--disable-template-data", "--cpus", "1"),
                *("-c", str(USERS), "--connections", str(CONNECTIONS), "-z", f"{self.seconds}s"),
                *("--duration-stop", "wait", self.address),
            ],
            self.folder,
        )
        count, good = re.search(r"Count:\s+(\d+)", out), re.search(r"\[OK\]\s+(\d+) responses", out)
        if not count or not good or count[1] != good[1]:
            raise RuntimeError(f"errors of ghz: {out[-800:]}")
        return int(good[1]), cpu

    def by_k6(self, _: str) -> tuple[int, float]:
        out = self.folder / "k6.json"
        script = K6.replace("USERS", str(USERS)).replace("SECONDS", str(self.seconds)).replace("OUT", str(out))
        script = script.replace("FOLDER", str(PROTO.parent)).replace("ADDRESS", self.address)
        (self.folder / "k6.js").write_text(script)
        run_k6 = [os.environ.get("K6", "k6"), "run", "--quiet", "--no-usage-report", "k6.js"]
        _, cpu = run(run_k6, self.folder)
        metrics = json.loads(out.read_text())["metrics"]
        if metrics.get("failed"):
            raise RuntimeError(f"errors of k6: {metrics['failed']}")
        return metrics["iterations"]["values"]["count"], cpu


def versions() -> list[str]:
    """What each program says of itself; ghz is built without its version, which its go.mod has."""
    ghz = re.search(r"bojand/ghz (\S+)", (Path(__file__).parent / "ghz/go.mod").read_text())
    k6 = rig.output([os.environ.get("K6", "k6"), "version"])
    return [rig.output(["gauge", "--version"]), f"ghz {ghz[1]}", k6.splitlines()[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=4)
    options = parser.parse_args()
    lines, raw = ["# Calls of gRPC, against ghz and k6", ""], {}

    def say(line: str) -> None:
        rig.say(line)
        lines.append(line)

    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), options.seconds)
        try:
            where = environment(*versions())
            say(
                f"{where['date']}, {where['host']}: {where['cpu']}, {where['cores']} cores, Linux {where['kernel']}; commit {where['commit']}; "
                f"{'; '.join(where['versions'])}. Made by `{where['command']}`. {USERS} calls in flight, runs of {options.seconds} s.\n"
            )
            say("| peer | gauge, calls per CPU-second | peer | ratio, median | least | most | bar | |")
            say("|---|---|---|---|---|---|---|---|")
            for peer, bar in BARS.items():
                rounds = raw[peer] = []
                for number in range(options.rounds):
                    order = ["gauge", peer] if number % 2 else [peer, "gauge"]
                    seen = {tool: dict(zip(("calls", "cpu_s"), bench.calls(tool, peer), strict=True)) for tool in order}
                    rounds.append(seen)
                each = [{tool: one["calls"] / one["cpu_s"] for tool, one in seen.items()} for seen in rounds]
                ratios = [one["gauge"] / one[peer] for one in each]
                ours, others = (statistics.median(one[tool] for one in each) for tool in ("gauge", peer))
                middle = statistics.median(ratios)
                verdict = "met" if middle >= bar else "missed"
                say(
                    f"| {peer} | {ours:.0f} | {others:.0f} | {middle:.2f} | {min(ratios):.2f} | {max(ratios):.2f} | >= {bar} | {verdict} |"
                )
        finally:
            bench.stop()
    save(options.out, {"environment": where, **raw}, "\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
