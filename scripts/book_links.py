#!/usr/bin/env python3
"""A preprocessor of mdBook: what links of the docs into the rest of the repository become on the site, which does not contain it.

With REPOSITORY_URL (https://host/owner/name) they lead to the file there, on the branch main; without, the path is written as text.
"""

import json
import os
import posixpath
import re
import sys

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def elsewhere(path: str) -> str | None:
    """The path in the repository, if a link of a page in docs/ leads out of docs/."""
    path = posixpath.normpath(posixpath.join("docs", path))
    return None if path.startswith("docs/") and path != "docs/SUMMARY.md" else path


def rewritten(text: str, folder: str) -> str:
    repository = os.environ.get("REPOSITORY_URL", "").rstrip("/")

    def link(found: re.Match[str]) -> str:
        target, _, fragment = found[3].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        path = elsewhere(posixpath.join(folder, target))
        if path is None:
            return found[0]
        if repository:
            return f"{found[1]}[{found[2]}]({repository}/blob/main/{path}{'#' * bool(fragment)}{fragment})"
        return f"{found[2]} (`{path}`)" if path.strip("/") not in found[2] else found[2]

    # A fenced block has no links.
    parts = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def walk(items: list) -> None:
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            chapter = item["Chapter"]
            chapter["content"] = rewritten(chapter["content"], posixpath.dirname(chapter["path"] or ""))
            walk(chapter["sub_items"])


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    _, book = json.load(sys.stdin)
    walk(book.get("items", book.get("sections", [])))
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
