#!/usr/bin/env python3
"""Follows the links of a site that mdBook made: book.py SITE

Every `href` and `src` that is not of another site must lead to a file of the site, and its fragment to an id there. Links into the repository, which the
site does not contain, must lead to a file there. Each page counts as one test.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


class Page(HTMLParser):
    """The ids of a page, and what it refers to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def wrong(site: Path, pages: dict[Path, Page], file: Path, link: str) -> str | None:
    """What is wrong with a link of a page."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_relative_to(site):
        # A file of the repository beside the docs.
        target = (DOCS / file.parent.relative_to(site) / unquote(parts.path)).resolve()
        return None if target.exists() else "is not in the repository"
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "leads nowhere"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return "has no such anchor"
    return None


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    # What mdBook makes of all pages at once repeats their links.
    files = [file for file in sorted(site.rglob("*.html")) if file.name not in ("print.html", "toc.html", "404.html")]
    pages = {file: Page(file) for file in files}
    count, failed = 0, set()
    for file, page in pages.items():
        for link in page.links:
            count += 1
            if reason := wrong(site, pages, file, link):
                failed.add(file)
                print(f"{file.relative_to(site)}: {link} {reason}", file=sys.stderr)
    print(f"{count} links of {len(pages)} pages")
    print(f"{len(pages) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed) or not pages)


if __name__ == "__main__":
    main()
