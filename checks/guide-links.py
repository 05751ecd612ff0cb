"""Where links lead: of every Markdown file of the repository, and of the built book's pages.

A relative link must lead to a file or folder, and what follows # to a heading there.
Usage: guide-links.py BOOK
"""

import functools
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


def prose(text):
    """Without blocks of code; and without code within a line, where brackets and parentheses are none of a link."""
    kept, inside = [], False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        inside ^= fence
        kept.append("" if inside or fence else re.sub(r"`[^`]*`", "code", line))
    return kept


@functools.cache
def anchors(path):
    """The names of a file's headings: the ids of a page, else as forges make them of Markdown."""
    text = path.read_text()
    if path.suffix == ".html":
        return set(re.findall(r'\bid="([^"]+)"', text))
    found, inside = set(), False
    for line in text.splitlines():
        inside ^= line.lstrip().startswith("```")
        heading = re.match(r"#+ +(.*)", line)
        if heading and not inside:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def wrong(source, link):
    """What is wrong with a link of this file, or None."""
    if re.match(r"[a-z]+:", link) or link.startswith("//"):
        return None
    name, _, anchor = unquote(link).partition("#")
    path = (source.parent / name).resolve() if name else source.resolve()
    if not path.exists():
        return f"{link} leads to no file"
    if anchor and path.suffix in (".md", ".html") and anchor not in anchors(path):
        return f"{link}: no heading is called so"
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
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True, check=True)
    checked, failures = 0, []
    for source in map(Path, names.stdout.split()):
        # A file that is deleted, and not committed so.
        if not source.exists():
            continue
        for number, line in enumerate(prose(source.read_text()), 1):
            for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", line):
                checked += 1
                if reason := wrong(source, link):
                    failures.append(f"{source}:{number}: {reason}")
    for source in sorted(Path(book).glob("*.html")):
        for link in Links(source.read_text()).found:
            checked += 1
            if reason := wrong(source, link):
                failures.append(f"{source}: {reason}")
    for failure in failures:
        print(f"FAILED  {failure}", file=sys.stderr)
    print(f"{'FAILED ' if failures else 'ok     '} {checked} links")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
