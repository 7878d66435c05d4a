#!/usr/bin/env python3
"""Checks README.md and the pages of docs/: pages.py lint | pages.py run [FILE...]

lint   every link and anchor leads somewhere, docs/SUMMARY.md lists every page once, and every fenced block says what it is.
run    starts what the pages say, as typed, with `weir` and `gauge` of PATH. Ends with "N passed, N failed, N skipped".

Words after the fence:
  console           commands after "$ "; what follows one is what it prints, where … stands for anything; nothing: it is not compared
  console server    commands that run until the next such block or the end of the page, each in a terminal of its own
  console another   the same, beside those that run already
  console long      minutes: those of README.md are run where CI=true, all with PAGES_LONG=1; `make test` and `make lint` are what CI runs anyway
  console not-run   needs what CI does not have (containers, another machine, root); the text beside it says what
  yaml NAME.yaml    a file, written where the page's commands run; `weir check` accepts it when NAME has "weir" in it
  yaml weir         a part of a configuration: `weir check` accepts it with a listener, upstreams and a route added where it has none
  yaml part, json   read by a person; yaml and JSON of other programs
  python NAME.py    a program that a page needs
  text, sql, ...    output, diagrams
127.0.0.1:PORT in commands and files (but evaluations) is another free port in each run, so that nothing on the machine is in the way.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from console import matches

ROOT = Path(__file__).resolve().parent.parent
WORDS = {"console": {"", "server", "another", "long", "not-run"}, "yaml": {"weir", "part"}, "json": {""}, "text": {""}}
OTHERS = {"json", "text", "rust", "lua", "toml", "nginx", "ini", "mermaid", "html", "dockerfile", "python"}
# What weir and gauge demo print, gauge ui, and make producers.
LISTENS = re.compile(r"listening on|gauge ui on http://|^ready; Ctrl-C", re.MULTILINE)
ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost):(\d{2,5})\b")
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(text: str) -> list[tuple[int, str, str]]:
    """(line, words after the fence, body)"""
    found = []
    for block in FENCE.finditer(text):
        indent = len(block.group(1))
        body = "\n".join(line[indent:] for line in block.group(3).splitlines()) + "\n"
        found.append((text.count("\n", 0, block.start()) + 1, block.group(2).strip(), body))
    return found


# ---- lint


def slug(heading: str) -> str:
    """The anchor that GitHub and mdBook give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text())
    seen: dict[str, int] = {}
    found = set(re.findall(r'(?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found


def wrong_links(page: Path) -> list[str]:
    # The lines stay where they are, so that a finding has its number.
    text = FENCE.sub(lambda block: "\n" * block.group().count("\n"), page.read_text())
    text = re.sub(r"`[^`\n]*`", "", text)
    found = []
    for link in re.finditer(r"\]\(([^)\s]+)\)", text):
        target, line = link.group(1), text.count("\n", 0, link.start()) + 1
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{page.relative_to(ROOT)}:{line}: {target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            found.append(f"{page.relative_to(ROOT)}:{line}: {target}: {file.name} has no such heading")
    return found


def wrong_blocks(page: Path) -> list[str]:
    found = []
    for line, words, _ in blocks(page.read_text()):
        language, _, word = words.partition(" ")
        named = re.fullmatch(r"[\w./-]+\.\w+", word)
        if not (word in WORDS.get(language, {""}) or (named and language in {"yaml", "json", *OTHERS})) or (
            language not in WORDS and language not in OTHERS
        ):
            found.append(f"{page.relative_to(ROOT)}:{line}: a block of `{words}`: see the words in scripts/pages.py")
    return found


def wrong_summary() -> list[str]:
    summary = ROOT / "docs/SUMMARY.md"
    listed = re.findall(r"\]\(([^)#]+\.md)\)", summary.read_text())
    there = {str(page.relative_to(summary.parent)) for page in pages()[1:]} - {"SUMMARY.md"}
    found = [f"docs/SUMMARY.md: {page} is not listed" for page in sorted(there - set(listed))]
    return found + [
        f"docs/SUMMARY.md: {page} is listed twice" for page in sorted({p for p in listed if listed.count(p) > 1})
    ]


KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
PRODUCTS = ("Weir", "Gauge", "Services", "Project")


def wrong_changelog() -> list[str]:
    """Keep a Changelog 1.1.0: versions in brackets; in a version each kind of change once; in a kind each product once."""
    found, heading, seen = [], ("", "", ""), set()
    for number, line in enumerate((ROOT / "CHANGELOG.md").read_text().splitlines(), 1):
        marks, _, name = line.partition(" ")
        problem = ""
        if marks in ("##", "###", "####"):
            level = len(marks) - 2
            heading = (*heading[:level], name, "", "")[:3]
            if level == 0 and not re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name):
                problem = "a version is `## [Unreleased]` or `## [1.2.3] - 2026-01-31`"
            elif level > 0 and name not in (KINDS, PRODUCTS)[level - 1]:
                problem = f"'{name}' is not one of: {', '.join((KINDS, PRODUCTS)[level - 1])}"
            elif heading in seen:
                problem = f"'{name}' comes a second time; add to the first"
            seen.add(heading)
        elif line.startswith("- ") and not all(heading):
            problem = "a change must be below a kind (`### Added`) and a product (`#### Weir`)"
        found += [f"CHANGELOG.md:{number}: {problem}"] if problem else []
    return found


def lint() -> int:
    others = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") if (ROOT / name).exists()]
    others += [
        *(ROOT / "benches").glob("*.md"),
        ROOT / "benches/runs/README.md",
        *(ROOT / "services").glob("*.md"),
        *(ROOT / "deploy").glob("**/README.md"),
    ]
    found = wrong_summary() + wrong_changelog()
    for page in pages():
        found += wrong_links(page) + wrong_blocks(page)
    for page in others:
        found += wrong_links(page)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


# ---- run


class Page:
    """One page's folder, its shell's variables and the servers that it started."""

    def __init__(self, page: Path, folder: Path):
        self.page, self.folder = page, folder
        self.state = folder / ".session"
        self.ports: dict[str, str] = {}
        self.servers: list[subprocess.Popen] = []
        self.passed = self.failed = self.skipped = 0
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in sorted({line.split("/")[0] for line in listed.splitlines()}):
            (folder / name).symlink_to(ROOT / name)

    def at_free_ports(self, text: str) -> str:
        # An address that a description has is a name, nothing listens there.
        if text.startswith("gauge convert"):
            return text

        def other(address: re.Match[str]) -> str:
            port = address.group(2)
            if port not in self.ports:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self.ports[port] = str(free.getsockname()[1])
            return f"{address.group(1)}:{self.ports[port]}"

        return ADDRESS.sub(other, text)

    def shell(self, command: str) -> list[str]:
        # `make` builds, and Cargo would take a folder of links for another workspace.
        folder = ROOT if re.match(r"(\w+=\S+ )*make ", command) else self.folder
        script = f'[ -e "{self.state}" ] && . "{self.state}"; {command}\ncode=$?; export -p >"{self.state}"; exit $code'
        return ["bash", "-c", f'cd "{folder}"; {script}']

    def environment(self) -> dict[str, str]:
        self.at_free_ports("127.0.0.1:8080 127.0.0.1:9901")
        # `gauge run` stores what it measured; not in the history of whoever checks these pages.
        own = {"XDG_DATA_HOME": f"{self.folder}/.data", "PRODUCERS_DATA": f"{self.folder}/.producers"}
        ports = {"PORT": self.ports["8080"], "ADMIN_PORT": self.ports["9901"]}
        return {**os.environ, **own, **ports, "PROFILE": os.environ.get("PROFILE", "dev")}

    def tell(self, line: int, command: str, problem: str) -> None:
        self.failed += 1
        print(f"FAILED {self.page.relative_to(ROOT)}:{line}: $ {command}\n  {problem}")

    def command(self, line: int, command: str, expected: str) -> None:
        try:
            done = subprocess.run(
                self.shell(self.at_free_ports(command)),
                capture_output=True,
                text=True,
                timeout=1500,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            self.tell(line, command, "no end after 25 minutes")
            return
        expected = self.at_free_ports(expected)
        if done.returncode != 0:
            self.tell(
                line,
                command,
                f"exit code {done.returncode}: {done.stdout.strip()[-2000:]} {done.stderr.strip()[-2000:]}",
            )
        elif expected.strip() and not matches(expected, done.stdout):
            self.tell(
                line,
                command,
                f"expected: {expected.strip()}\n  printed:  {done.stdout.strip()[-2000:]} {done.stderr.strip()[-500:]}",
            )
        else:
            self.passed += 1

    def server(self, line: int, command: str) -> None:
        log = self.folder / f".server-{len(self.servers)}"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.shell(self.at_free_ports(command)),
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.servers.append(process)
        end = time.monotonic() + 1500
        while not LISTENS.search(log.read_text()) and time.monotonic() < end and process.poll() is None:
            time.sleep(0.05)
        if not LISTENS.search(log.read_text()):
            self.tell(line, command, f"it does not listen: {log.read_text()[-2000:]}")
        else:
            self.passed += 1

    def stop_servers(self) -> None:
        for process in self.servers:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        for process in self.servers:
            try:
                process.wait(45)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        self.servers = []

    def check(self, line: int, name: str, body: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        # The addresses of an evaluation are those of its description.
        (self.folder / name).write_text(body if "evaluation" in name else self.at_free_ports(body))
        if "weir" in name:
            self.command(line, f"weir check {name}", "")
        else:
            self.passed += 1

    def runs_long(self, command: str) -> bool:
        """Whether a command that takes minutes is run. The README's are in CI; those of other pages measure the same way for as long."""
        in_ci = os.environ.get("CI") == "true" and self.page.name == "README.md"
        return (in_ci or os.environ.get("PAGES_LONG") == "1") and not command.startswith(("make test", "make lint"))

    def run(self) -> None:
        for line, words, body in blocks(self.page.read_text()):
            language, _, word = words.partition(" ")
            if language == "console":
                steps = [step.partition("\n") for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
                if word == "server":
                    self.stop_servers()
                for command, _, expected in steps:
                    if word == "not-run" or (word == "long" and not self.runs_long(command)):
                        self.skipped += 1
                    elif word in ("server", "another"):
                        self.server(line, command)
                    else:
                        self.command(line, command, expected)
            elif word == "weir":
                self.check(line, f"weir-{line}.yaml", completed(body))
            elif "." in word and language in ("yaml", "json", "python"):
                self.check(line, word, body)


def completed(body: str) -> str:
    """The part of a configuration with what a file must have besides."""
    tops = set(re.findall(r"^(\w+):", body, re.MULTILINE))
    added = []
    if "listen" not in tops:
        added.append("listen: 127.0.0.1:8080")
    if "routes" not in tops:
        added.append("routes: [{match: {path: /added}, respond: {body: ok}}]")
    defined = (
        set(re.findall(r"^  ([\w.-]+):", body.partition("upstreams:\n")[2], re.MULTILINE))
        if "upstreams:\n" in body
        else set()
    )
    wanted = set(re.findall(r"\bupstream: ([\w.-]+)", body))
    for names in re.findall(r"\bfallback: \[([^\]]*)\]", body):
        wanted |= {name.strip() for name in names.split(",")}
    if "upstreams" not in tops and wanted - defined:
        added.append(
            "upstreams: {" + ", ".join(f"{name}: {{targets: [http://127.0.0.1:9000]}}" for name in sorted(wanted)) + "}"
        )
    return body + "".join(f"{line}\n" for line in added)


def run(files: list[str]) -> int:
    passed = failed = skipped = 0
    for path in [Path(file).resolve() for file in files] or pages():
        folder = Path(tempfile.mkdtemp(prefix="weir-page-"))
        # The user of PostgreSQL, whom root becomes for it, must reach its data there.
        folder.chmod(0o755)
        page = Page(path, folder)
        try:
            page.run()
        finally:
            page.stop_servers()
            shutil.rmtree(folder, ignore_errors=True)
        if page.passed + page.failed + page.skipped:
            print(
                f"{path.relative_to(ROOT)}: {page.passed} passed, {page.failed} failed, {page.skipped} not run",
                flush=True,
            )
        passed, failed, skipped = passed + page.passed, failed + page.failed, skipped + page.skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["lint"]:
        sys.exit(lint())
    if sys.argv[1:2] == ["run"]:
        sys.exit(run(sys.argv[2:]))
    sys.exit(__doc__)
