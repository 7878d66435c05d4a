"""CPU time of a chat call. All gateways run at once and are loaded in turn, in changing order: each round has one window of each; figures are medians of
the ratios of a round. A window with anything but 2xx is void."""

import statistics
from argparse import Namespace

import stage as on
from record import spread
from rig import System, say
from table import window

PATH = "/v1/chat/completions"
# Long enough for slow gateways to respond to some hundred calls.
PLAN = {"closed": {"users": 64, "duration": "2s"}}
PORTKEY = {"x-portkey-provider": "openai"}

# name, what it is, bar for its CPU over that of plain proxying of the same bytes
AI_ROWS = [
    ("1 KiB", "1 KiB prompt", 1024, "bench", 1.25),
    ("100 KiB", "100 KiB prompt", 100 * 1024, "bench", 1.5),
    ("translated", "1 KiB prompt, translated to Anthropic's API", 1024, "translated", 3.0),
]
# Least multiple of Weir's CPU with key, limit and log.
PEERS = {"litellm": 50, "portkey": 10}


def measure(stage: on.Stage, options: Namespace) -> dict:
    stage.provider()
    plain, ai = stage.weir_with("plain"), stage.weir_with("ai")
    peers = {"litellm": stage.litellm(), "portkey": stage.portkey()}
    operations = {name: on.chat(size, model) for name, _, size, model, _ in AI_ROWS}
    own = on.chat(1024)
    as_peer = {
        "litellm": own | {"headers": own["headers"] | {"Authorization": f"Bearer {on.LITELLM_KEY}"}},
        "portkey": own | {"headers": own["headers"] | PORTKEY | {"x-portkey-custom-host": custom_host(stage)}},
    }
    for operation in operations.values():
        responds(ai, operation)
    for name, system in peers.items():
        responds(system, as_peer[name])
    refuses_strangers(ai, own)
    refuses_strangers(peers["litellm"], own)
    found: dict = {"rows": {}, "peers": {}}
    for name, operation in operations.items():
        rounds = alternate({"plain": (plain, operation), "ai": (ai, operation)}, options.rounds)
        found["rows"][name] = {
            "samples": rounds,
            **spread(one["ai"]["cpu_us"] / one["plain"]["cpu_us"] for one in rounds),
        }
        say(f"{name}: {found['rows'][name]['ratio']:.3f}")
    systems = {"ai": (ai, own), **{name: (system, as_peer[name]) for name, system in peers.items()}}
    rounds = alternate(systems, options.rounds)
    for name in peers:
        found["peers"][name] = spread(one[name]["cpu_us"] / one["ai"]["cpu_us"] for one in rounds)
    return found | {"peer_samples": rounds}


def custom_host(stage: on.Stage) -> str:
    """Portkey's gateway learns its provider from each call."""
    return f"http://127.0.0.1:{stage.upstream_port}/v1"


def responds(system: System, operation: dict) -> None:
    """A gateway that responds quickly with something else would win."""
    status, body = on.call(system, operation)
    if status != 200 or "hello from the upstream" not in body:
        raise RuntimeError(f"{system.name}: a call gets {status}: {body[:500]}")


def refuses_strangers(system: System, operation: dict) -> None:
    status, _ = on.call(system, operation, {"Content-Type": "application/json", "Authorization": "Bearer sk-wrong"})
    # LiteLLM has no database here to look a key up in, and says 400.
    if status not in (400, 401):
        raise RuntimeError(f"{system.name}: a call with a wrong key gets {status}")


def alternate(systems: dict[str, tuple[System, dict]], rounds: int) -> list[dict]:
    """One window of each system in each round; the first round warms up."""
    found = []
    names = list(systems)
    for number in range(rounds + 1):
        at = number % len(names)
        seen = {}
        for name in names[at:] + names[:at]:
            system, operation = systems[name]
            seen[name] = window(system, PATH, operation, PLAN)
        if number and all(seen.values()):
            found.append(seen)
    if not found:
        raise RuntimeError(f"no round of {', '.join(names)} was valid")
    return found


def summary(found: dict) -> str:
    lines = [
        "## CPU time of a chat call with key, limit of tokens, metrics and access log, against plain proxying",
        "",
        "| call | plain | AI route | ratio (least, most) | bar | |",
        "|---|---|---|---|---|---|",
    ]
    for name, what, _, _, bar in AI_ROWS:
        row = found["rows"][name]
        plain, ai = (middle(row["samples"], which) for which in ("plain", "ai"))
        verdict = "met" if row["ratio"] <= bar else "missed"
        lines.append(f"| {what} | {plain:.1f} us | {ai:.1f} us | {ratio(row)} | {bar} | {verdict} |")
    own = middle(found["peer_samples"], "ai")
    lines += [
        "",
        f"| gateway, 1 KiB prompt | CPU time of a call | over Weir's {own:.1f} us | least | |",
        "|---|---|---|---|---|",
    ]
    for name, least in PEERS.items():
        peer = found["peers"][name]
        verdict = "met" if peer["ratio"] >= least else "missed"
        lines.append(f"| {name} | {middle(found['peer_samples'], name):.0f} us | {ratio(peer)} | {least} | {verdict} |")
    return "\n".join(lines)


def middle(rounds: list[dict], name: str) -> float:
    return statistics.median(one[name]["cpu_us"] for one in rounds)


def ratio(row: dict) -> str:
    return f"{row['ratio']:.3g} ({row['ratio_min']:.3g}, {row['ratio_max']:.3g})"
