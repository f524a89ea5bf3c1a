"""Follow every link of a built site, anchors included, and refuse what would be fetched from another host.

`python .ci/check_site.py FOLDER` prints each finding and exits with 1 if there is one. Nothing is fetched: of a link to
another host that a reader may click, nothing is asked but that it is `https`.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that a browser fetches by itself; `href` of these elements too, of others only when clicked.
_FETCHED = {"src", "srcset", "poster", "data"}
_LINKS = {"link", "use", "image"}
_INLINE_URL = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"](?:https?:)?//")


class Page(HTMLParser):
    """What one page names: its anchors, what it links to, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Take what one element names."""
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in _FETCHED or (name == "href" and tag in _LINKS):
                self.fetched.append(value)
            elif name == "href":
                self.links.append(value)


def findings(folder: Path) -> list[str]:
    """Return a line for each thing that is wrong with the pages of a folder."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    pages = {path: page for path, page in pages.items() if "_downloads" not in path.relative_to(folder).parts}
    found = [] if pages else [f"{folder}: no page"]
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        for url in dict.fromkeys([*page.links, *page.fetched]):
            parts = urlsplit(url)
            if parts.scheme in ("data", "mailto") or parts.netloc:
                if parts.scheme == "http":
                    found.append(f"{name}: links to {url}, which is not https")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{name}: links to {url}, which does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: links to {url}, which has no such anchor")
    for style in folder.rglob("*.css"):
        if _INLINE_URL.search(style.read_text(encoding="utf-8")):
            found.append(f"{style.relative_to(folder)}: fetches from another host")
    return found


def main() -> int:
    """Check the folder that is named."""
    found = findings(Path(sys.argv[1]).resolve())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
