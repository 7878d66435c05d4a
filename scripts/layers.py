#!/usr/bin/env python3
"""Checks that the modules of Weir know only modules of lower layers, and that none writes lines of HTTP/1.1 itself: layers.py [--arrows]

The order is the table under "Layers" in docs/internals.md, highest layer first. Modules of one row do not know each other either.
Heads are written by `h1::encode` and found again by `h1::written`: no module holds the end of a line in a text of its own.
--arrows   prints every use of one module by another, with its count, instead.
Tests do not count: files named tests.rs, folders named tests, and items behind #[cfg(test)].
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "crates/weir/src"
PAGE = ROOT / "docs/internals.md"
# Uses of a higher layer that there still are: (user, used), with the reason. Whoever removes the last such use removes the entry too.
KNOWN: dict[tuple[str, str], str] = {}

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|b?"(?:[^"\\]|\\.)*"', re.DOTALL)
TEST_ITEM = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*")
PATH = re.compile(r"\b(crate|weir|super)((?:\s*::\s*super)*)\s*::\s*(\{|\w+)")


def layers() -> dict[str, int]:
    """The row of each module: 0 is the highest layer."""
    section = PAGE.read_text().split("\n## Layers\n", 1)
    if len(section) < 2:
        sys.exit(f"{PAGE.relative_to(ROOT)} has no section Layers")
    rows = [line for line in section[1].split("\n## ", 1)[0].splitlines() if line.startswith("| `")]
    return {name: row for row, line in enumerate(rows) for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def end_of_item(text: str, start: int) -> int:
    """Where the item ends that begins at start: behind its braces, or its semicolon."""
    depth = 0
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0 and char == "}":
                return at + 1
        elif char == ";" and depth == 0:
            return at + 1
    return len(text)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def without_tests(text: str) -> tuple[str, str]:
    """A file without its tests: as it is, and without comments and texts; both as long as the file."""
    bare = COMMENT_OR_TEXT.sub(lambda found: blank(found[0]), text)
    while found := TEST_ITEM.search(bare):
        end = end_of_item(bare, found.end())
        text, bare = (one[: found.start()] + blank(one[found.start() : end]) + one[end:] for one in (text, bare))
    return text, bare


def code(path: Path) -> str:
    """The code of a file, without comments, texts and tests; as many lines as the file has."""
    return without_tests(path.read_text())[1]


def line_ends(path: Path) -> Iterator[int]:
    """Lines with a text that holds the end of a line of HTTP/1.1."""
    text, _ = without_tests(path.read_text())
    for found in COMMENT_OR_TEXT.finditer(text):
        if r"\r\n" in found[0] and not found[0].startswith(("//", "/*")):
            yield text.count("\n", 0, found.start()) + 1


def group_names(text: str, start: int) -> list[str]:
    """First names of what a group in braces lists; start is behind its opening brace."""
    names, depth, is_first = [], 0, True
    for word in re.finditer(r"\w+|[{},]", text[start:]):
        if word[0] == "{":
            depth += 1
        elif word[0] == "}":
            if depth == 0:
                break
            depth -= 1
        elif word[0] == ",":
            is_first = is_first or depth == 0
        elif depth == 0 and is_first:
            names.append(word[0])
            is_first = False
    return names


def uses(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of the crate's root that a file names, with the line."""
    place = path.relative_to(SOURCE).with_suffix("").parts
    depth = len(place) - (place[-1] in ("mod", "main", "lib"))
    text = code(path)
    for found in PATH.finditer(text):
        start, more, name = found.groups()
        if start == "super" and 1 + more.count("super") < depth:
            continue
        line = text.count("\n", 0, found.start()) + 1
        names = group_names(text, found.end()) if name == "{" else [name]
        yield from ((name, line) for name in names)


def main() -> None:
    order = layers()
    modules = {path.stem for path in SOURCE.iterdir()} - {"lib"}
    arrows: dict[tuple[str, str], list[str]] = defaultdict(list)
    texts = []
    for path in sorted(SOURCE.rglob("*.rs")):
        place = path.relative_to(SOURCE)
        if "tests" in place.parts or place.name == "tests.rs" or place.name == "lib.rs":
            continue
        user = Path(place.parts[0]).stem
        texts += [f"{path.relative_to(ROOT)}:{line}" for line in line_ends(path)]
        for used, line in uses(path):
            if used in modules and used != user:
                arrows[user, used].append(f"{path.relative_to(ROOT)}:{line}")
    if sys.argv[1:] == ["--arrows"]:
        for (user, used), places in sorted(arrows.items(), key=lambda arrow: (arrow[0][0], -len(arrow[1]))):
            print(f"{user:12} {used:12} {len(places):4}")
        return
    bad = [f"{name}: not in the table of layers" for name in sorted(modules - set(order))]
    bad += [f"{name}: in the table of layers, but there is no such module" for name in sorted(set(order) - modules)]
    for (user, used), places in arrows.items():
        if user in order and used in order and order[user] >= order[used] and (user, used) not in KNOWN:
            bad += [f"{place}: `{user}` uses `{used}`, which is no lower layer" for place in places]
    bad += [f"{place}: lines of HTTP/1.1 are written by h1::encode and read by h1::written" for place in texts]
    bad += [f"{user} no longer uses {used}: take it out of KNOWN" for user, used in KNOWN if (user, used) not in arrows]
    if bad:
        print("\n".join(bad))
        sys.exit(f"{len(bad)} findings: docs/internals.md has the layers")


if __name__ == "__main__":
    main()
