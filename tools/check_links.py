"""Follow every link of the built documentation to its file and its place in there.

python tools/check_links.py docs/_build/html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Pages of Sphinx itself, whose links to sources and searches are made by scripts.
OTHERS = {"search.html", "genindex.html", "py-modindex.html"}


class _Page(HTMLParser):
    """The links of a page, and the places that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := given.get(key))}
        link = given.get("href") if tag == "a" else given.get("src") if tag == "img" else None
        if link:
            self.links.append(link)


def broken(folder: Path) -> Iterator[tuple[str, str]]:
    """Pairs (page, link) that lead to no file, or to no place in one."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in sorted(pages.items()):
        if path.name in OTHERS:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            place = unquote(parts.fragment)
            if not target.is_file():
                yield str(path.relative_to(folder)), link
            elif place and target in pages and place not in pages[target].places:
                yield str(path.relative_to(folder)), link


if __name__ == "__main__":
    found = sorted(set(broken(Path(sys.argv[1]).resolve())))
    for page, link in found:
        print(f"{page}: {link}")
    sys.exit(1 if found else 0)
