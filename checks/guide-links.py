"""Where the links of the built book lead: each relative one to a file, and what follows # to a heading there.

The pages' own links, and those of all Markdown files, are a test of crates/cli/tests/architecture.
Usage: guide-links.py BOOK
"""

import functools
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


@functools.cache
def names(path):
    return set(re.findall(r'\bid="([^"]+)"', path.read_text()))


def wrong(page, link):
    """What is wrong with a link of this page, or None."""
    if re.match(r"[a-z]+:", link):
        return None
    name, _, anchor = unquote(link).partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists():
        return f"{link} leads to no file"
    if anchor and path.suffix == ".html" and anchor not in names(path):
        return f"{link}: nothing there is called so"
    return None


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("href", "src") and value]


def main(book):
    pages = sorted(Path(book).resolve().glob("*.html"))
    links = [(page, link) for page in pages for link in Links(page.read_text()).found]
    failures = [f"{page.name}: {reason}" for page, link in links if (reason := wrong(page, link))]
    for failure in failures:
        print(f"FAILED  {failure}", file=sys.stderr)
    print(f"{'FAILED ' if failures else 'ok     '} {len(links)} links of the book")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
