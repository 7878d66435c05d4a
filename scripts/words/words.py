#!/usr/bin/env python3
"""Finds words that forbidden.txt lists in documents, comments and messages, and names.txt in names of Rust: words.py [FILE...]

Prints every place with what to write instead; without FILE, in the whole repository. allowed.txt lists the places where
such a word is right. Exit code 1 when a place is found.
"""

import argparse
import bisect
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

HERE = Path(__file__).parent
# What is read: whole lines of Markdown and HTML; comments and messages of code; comments of the rest.
MARKDOWN, RUST, PYTHON, HASH = (".md",), (".rs",), (".py",), (".sh", ".yaml", ".yml", ".toml")
SLASHES, HTML = (".go", ".java", ".js", ".mjs", ".c", ".css"), (".html",)
SKIPPED = re.compile(
    r"(^|/)(corpus|golden|made_up|tests/bad-config)/|^benches/runs/|package-lock|^services/.*/testdata/|\.pb\.go$"
)


def rows(name: str) -> list[str]:
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def forbidden() -> list[tuple[re.Pattern[str], str]]:
    pairs = (row.split(" => ", 1) for row in rows("forbidden.txt"))
    return [(re.compile(pattern, re.IGNORECASE), instead.strip()) for pattern, instead in pairs]


def allowed() -> list[tuple[str, re.Pattern[str]]]:
    parts = ([part.strip() for part in re.split(r" \| ", row)] for row in rows("allowed.txt"))
    found = []
    for path, pattern, reason in parts:
        assert reason, f"{path}: a reason is missing"
        found.append((path, re.compile(pattern, re.IGNORECASE)))
    return found


def prose_of_markdown(text: str) -> list[tuple[int, str]]:
    found, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            found.append((number, line))
    return found


RUST_PIECE = re.compile(r'//[^\n]*|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.DOTALL)


def prose_of_rust(path: str, text: str) -> list[tuple[int, str]]:
    test = "/tests" in path or "/testkit/" in path
    found, fenced = [], False
    for piece in RUST_PIECE.finditer(text):
        word = piece.group()
        # An example in a documentation comment is code.
        if word.startswith(("//!", "///")) and word[3:].lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            fenced = word.startswith("//")
        # A literal with a space is a message; in tests it may be anything that a peer sends.
        elif word.startswith("//") or (not test and '"' in word and " " in word):
            start = text.count("\n", 0, piece.start()) + 1
            found += [(start + offset, line) for offset, line in enumerate(word.splitlines())]
    return found


SLASHES_PIECE = re.compile(
    r"//[^\n]*|/\*.*?\*/|`(?:\\.|[^`\\])*`|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
# In a test a literal may be anything that a peer sends.
TEST = re.compile(r"(^|/)(tests?|browser|oidc|harness)/|_test\.go$|[._]test\.m?js$")


def prose_of_slashes(path: str, text: str) -> list[tuple[int, str]]:
    """Comments of Go, Java, JavaScript, C and CSS, and literals with a space."""
    found = []
    for piece in SLASHES_PIECE.finditer(text):
        word = piece.group()
        comment = word.startswith(("//", "/*"))
        if comment or (" " in word and not TEST.search(path)):
            # The backquotes of a literal are not those of code.
            word = re.sub(r"\$\{[^{}]*\}", " ", word).replace("`", " ") if word.startswith("`") else word
            start = text.count("\n", 0, piece.start()) + 1
            found += [(start + offset, line) for offset, line in enumerate(word.splitlines())]
    return found


def prose_of_python(text: str) -> list[tuple[int, str]]:
    """Comments, docstrings and other literals with a space."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        literal = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and " " in token.string
        if token.type == tokenize.COMMENT or literal:
            found += [(token.start[0] + offset, line) for offset, line in enumerate(token.string.splitlines())]
    return found


def prose_of_html(text: str) -> list[tuple[int, str]]:
    """What is between the tags, and attributes that are shown or read aloud."""
    spoken = re.sub(
        r"<[^<>]*>",
        lambda tag: (
            " ".join(re.findall(r'\s(?:title|alt|placeholder|aria-label|content)="([^"]*)"', tag.group()))
            + "\n" * tag.group().count("\n")
        ),
        text,
    )
    return list(enumerate(spoken.splitlines(), 1))


def prose_of_hash(text: str) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.search(r"(?:^|\s)#\s(.*)", line)
        message = re.findall(r"\"([^\"]*\s[^\"]*)\"", line)
        found += [(number, piece) for piece in ([comment.group(1)] if comment else []) + message]
    return found


def prose(path: str, text: str) -> list[tuple[int, str]]:
    if path.endswith(MARKDOWN):
        return prose_of_markdown(text)
    if path.endswith(RUST):
        return prose_of_rust(path, text)
    if path.endswith(SLASHES):
        return prose_of_slashes(path, text)
    if path.endswith(PYTHON) or text.startswith("#!/usr/bin/env python3"):
        return prose_of_python(text)
    if path.endswith(HTML):
        return prose_of_html(text)
    return prose_of_hash(text)


def plain(text: str) -> str:
    """The text without code (in backquotes, or in braces of a format string) and without the targets of links."""
    return re.sub(r"\]\([^)\n]*\)|https?://\S+", " ", re.sub(r"`[^`\n]*`|\{[^{}\n]*\}", " ", text))


def places(path: str, text: str, words: list, exempt: list) -> list[tuple[int, str, str]]:
    exempt = [pattern for glob, pattern in exempt if fnmatch.fnmatch(path, glob)]
    numbers, lines = [], []
    for number, line in prose(path, text):
        numbers.append(number)
        lines.append(line)
    # One search per word in all lines of a file: a search per line takes minutes.
    prose_text = plain("\n".join(lines))
    ends = [end.start() for end in re.finditer("\n", prose_text)]
    found = []
    for pattern, instead in words:
        for hit in pattern.finditer(prose_text):
            if not any(rule.search(hit.group()) for rule in exempt):
                found.append((numbers[bisect.bisect_left(ends, hit.start())], hit.group(), instead))
    return sorted(found)


# Lifetimes and characters are taken out with the literals: `'a` is no name.
RUST_NAME = re.compile(RUST_PIECE.pattern + r"|/\*.*?\*/|'[a-z_]+\b|([A-Za-z_]\w*)", re.DOTALL)
# Types that say nothing by themselves.
BARE = re.compile(r"\b(?:struct|enum|type|trait|union) (Asked|At|Found|Kept|Met|Place|Taken|Told)\b")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def names(path: str, text: str, words: dict[str, str], exempt: list) -> list[tuple[int, str, str]]:
    """Names of Rust that have a forbidden word as a part."""
    exempt = [pattern for glob, pattern in exempt if fnmatch.fnmatch(path, glob)]
    found = []
    for name in RUST_NAME.finditer(text):
        for part in PART.findall(name.group(2) or ""):
            instead = words.get(part.lower())
            if instead and not any(rule.search(part) for rule in exempt):
                found.append((text.count("\n", 0, name.start()) + 1, name.group(), instead))
    bare = ((text.count("\n", 0, name.start()) + 1, name.group(1)) for name in BARE.finditer(text))
    return found + [(line, name, "a noun of the field") for line, name in bare]


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    kinds = MARKDOWN + RUST + PYTHON + HASH + SLASHES + HTML
    return [
        path
        for path in listed.stdout.splitlines()
        if (path.endswith(kinds) or path == "Makefile" or re.match(r"scripts/[a-z-]+$", path))
        and not SKIPPED.search(path)
        and Path(path).exists()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    words, exempt = forbidden(), allowed()
    parts = dict(row.split(" => ", 1) for row in rows("names.txt"))
    bad = False
    for path in arguments.files or files():
        text = Path(path).read_text(errors="replace")
        found = places(path, text, words, exempt)
        if path.endswith(RUST):
            found += names(path, text, parts, exempt)
        for number, word, instead in found:
            print(f"{path}:{number}: '{word.strip()}': write: {instead}")
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
