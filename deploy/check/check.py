#!/usr/bin/env python3
"""Holds Dockerfiles and the compose file to what can be known without a container engine.

    check.py MODEL.json                    MODEL: what compose-go makes of compose.yaml with all profiles, as JSON
    check.py --health DOCKERFILE           prints the command of the last HEALTHCHECK as a JSON array
    check.py --copy DOCKERFILE CONTEXT TO  copies what the build is sent, to try its commands there

Of each Dockerfile: stages that build and one that runs, bases pinned to a version, a user that is a number and not 0, a health check, no COPY of what the build
context has not (as git and .dockerignore have it). Of the compose file: what it builds and mounts is there, ports are published on the loopback address alone and once,
what is waited for to be healthy says whether it is, and each Redis
what it does when its memory is full. Standard library only.
"""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
# Bases that are published without versions; Renovate pins their digests.
WITHOUT_VERSIONS = {"gcr.io/distroless/cc-debian12:nonroot"}
PINNED = re.compile(r":\d+\.\d+(\.\d+)?[\w.-]*(@sha256:[0-9a-f]{64})?$")
# They respond to a health RPC, or GET /api/v1/events/health, which the orchestrator requests.
WITHOUT_HEALTHCHECK = "services/producer/"


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, wanted: str) -> str | None:
        return next((rest for name, rest in reversed(self.instructions) if name == wanted), None)


def stages(dockerfile: Path) -> list[Stage]:
    text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name.upper() == "FROM":
            words = rest.split()
            found.append(Stage(words[0], words[2] if len(words) > 2 else ""))
        elif name and found:
            found[-1].instructions.append((name.upper(), rest.strip()))
    return found


def translated(pattern: str) -> re.Pattern[str]:
    """A pattern of .dockerignore: * within a name, ** across folders; it matches a file or any folder above it."""
    out, rest = "", pattern.strip("/")
    while rest:
        if rest.startswith("**/"):
            out, rest = out + "(?:.*/)?", rest[3:]
        elif rest.startswith("**"):
            out, rest = out + ".*", rest[2:]
        elif rest[0] == "*":
            out, rest = out + "[^/]*", rest[1:]
        else:
            out, rest = out + re.escape(rest[0]), rest[1:]
    return re.compile(f"{out}(?:/.*)?$")


def context_files(context: Path, dockerfile: Path) -> set[str]:
    """What a build is sent: the files that git knows, less those that are ignored."""
    listed = subprocess.run(
        ["git", "-C", context, "ls-files", "-co", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    own = dockerfile.with_name(dockerfile.name + ".dockerignore")
    ignore = own if own.exists() else context / ".dockerignore"
    lines = ignore.read_text().splitlines() if ignore.exists() else []
    rules = [
        (line.startswith("!"), translated(line.removeprefix("!")))
        for line in map(str.strip, lines)
        if line and line[0] != "#"
    ]
    sent = set()
    for name in filter(None, listed.split("\0")):
        verdicts = [keep for keep, pattern in rules if pattern.match(name)]
        if not verdicts or verdicts[-1]:
            sent.add(name)
    return sent


def check_dockerfile(dockerfile: Path, context: Path) -> list[str]:
    found, all_stages = [], stages(dockerfile)
    if len(all_stages) < 2:
        found.append("one stage alone: build in another than the one that runs")
    names = {stage.name for stage in all_stages}
    for stage in all_stages:
        if stage.base not in names and stage.base not in WITHOUT_VERSIONS and not PINNED.search(stage.base):
            found.append(f"FROM {stage.base} is not pinned to a version")
    final = all_stages[-1]
    user = final.last("USER") or ""
    if not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", user):
        found.append(f"USER {user or 'is missing'}: want the number of a user who is not root")
    if not final.last("HEALTHCHECK") and not str(dockerfile.relative_to(ROOT)).startswith(WITHOUT_HEALTHCHECK):
        found.append("HEALTHCHECK is missing")
    if not (final.last("ENTRYPOINT") or final.last("CMD") or "").startswith("["):
        found.append("ENTRYPOINT and CMD must be arrays: below a shell a program does not see SIGTERM")
    sent = context_files(context, dockerfile)
    for stage in all_stages:
        for name, rest in stage.instructions:
            if name not in ("COPY", "ADD") or "--from=" in rest:
                continue
            *sources, _ = [word for word in rest.split() if not word.startswith("--")]
            for source in sources:
                path = str(PurePosixPath(source))
                if path != "." and not any(one == path or one.startswith(path + "/") for one in sent):
                    found.append(f"COPY {source}: the build context {context} has no such file, or ignores it")
    return found


def check_compose(model: dict) -> tuple[list[str], dict[Path, Path]]:
    """What is wrong, and the context of each Dockerfile that is built."""
    found, contexts, published = [], {}, {}
    healthy = set()
    for name, service in model["services"].items():
        build = service.get("build")
        if build:
            context = Path(build["context"])
            dockerfile = context / build.get("dockerfile", "Dockerfile")
            if not dockerfile.is_file():
                found.append(f"{name}: there is no {dockerfile}")
                continue
            contexts[dockerfile] = context
            if stages(dockerfile)[-1].last("HEALTHCHECK"):
                healthy.add(name)
        elif not PINNED.search(service.get("image", "")):
            found.append(f"{name}: image {service.get('image')} is not pinned to a version")
        if service.get("image", "").startswith("redis:") and "--maxmemory-policy" not in (service.get("command") or []):
            found.append(f"{name}: say what Redis does when its memory is full: --maxmemory-policy")
        if service.get("healthcheck"):
            healthy.add(name)
        for volume in service.get("volumes", []):
            if volume["type"] == "bind" and not Path(volume["source"]).exists():
                found.append(f"{name}: there is no {volume['source']}")
        for port in service.get("ports", []):
            number = port.get("published")
            if port.get("host_ip") != "127.0.0.1":
                found.append(f"{name}: port {number} is published beyond this machine")
            if number in published:
                found.append(f"{name}: port {number} is that of {published[number]} too")
            published[number] = name
    for name, service in model["services"].items():
        for other, condition in service.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy" and other not in healthy:
                found.append(f"{name} waits for {other} to be healthy, which has no health check")
    return found, contexts


def main() -> int:
    if sys.argv[1:2] == ["--health"]:
        command = stages(Path(sys.argv[2]))[-1].last("HEALTHCHECK") or ""
        print(command[command.index("[") :])
        return 0
    if sys.argv[1:2] == ["--copy"]:
        dockerfile, context, target = (Path(argument).resolve() for argument in sys.argv[2:5])
        for name in context_files(context, dockerfile):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, target / name)
        return 0
    found, contexts = check_compose(json.loads(Path(sys.argv[1]).read_text()))
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*Dockerfile"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in listed.split():
        dockerfile = ROOT / name
        if dockerfile not in contexts:
            where = "an include of" if name.startswith(WITHOUT_HEALTHCHECK) else "a service in"
            found.append(f"{name}: nothing builds it; add {where} deploy/compose.yaml")
            continue
        found += [f"{name}: {problem}" for problem in check_dockerfile(dockerfile, contexts[dockerfile])]
    for problem in found:
        print(problem)
    print(
        f"{len(contexts)} Dockerfiles, {len(json.loads(Path(sys.argv[1]).read_text())['services'])} services: {len(found)} problems"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
