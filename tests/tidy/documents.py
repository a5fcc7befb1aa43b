"""Rules about documents: links, pages nobody finds, changelog fragments and lock files."""

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath

from tests.tidy.source import Problem, Source

CHANGE_KINDS = frozenset({"added", "changed", "fixed", "performance", "removed", "security"})

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(\s*([^)\s]+)[^)]*\)")
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
_FRAGMENT = re.compile(r"\d+\.([a-z]+)(?:\.\d+)?\.md")
_PINNED = re.compile(r"[A-Za-z0-9._-]+(?:\[[\w,-]+\])?==\S+(?: ; .+)? \\")
_ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links")


def owned_fragments(source: Source) -> Iterator[Problem]:
    """A changelog fragment names its issue and its kind, and says something."""
    path = source.path
    if path.parts[0] != "changelog.d" or path.name == "README.md":
        return
    match = _FRAGMENT.fullmatch(path.name)
    if len(path.parts) != 2 or match is None or match[1] not in CHANGE_KINDS:
        kinds = ", ".join(sorted(CHANGE_KINDS))
        yield Problem(path, 1, f"name it ISSUE.KIND.md, where KIND is one of {kinds}")
    if not source.text.strip():
        yield Problem(path, 1, "an empty fragment")


def locked_without_addresses(source: Source) -> Iterator[Problem]:
    """A lock file names exact versions and hashes, and leaves the address to the reader."""
    if source.path.parts[0] != "requirements" or source.path.suffix != ".txt":
        return
    lines = source.text.splitlines()
    for number, (line, following) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
        if _ADDRESS.search(line):
            yield Problem(source.path, number, "an address in a lock file")
        elif line and not line.startswith((" ", "#")) and not _is_pinned(line, following):
            yield Problem(source.path, number, "not pinned by version and hash")


def dead_links(sources: Sequence[Source], paths: Collection[str]) -> Iterator[Problem]:
    """Every relative link of a document leads to a file, and its anchor to a heading.

    `paths` are all files and directories that a link may lead to, from the root.
    """
    anchors = {str(s.path): _anchors(s.text) for s in sources if s.path.suffix == ".md"}
    for source in sources:
        for target, anchor, link in _relative_links(source):
            if target not in paths and target not in anchors:
                yield Problem(source.path, 1, f"the link {link!r} leads nowhere")
            elif anchor and anchor not in anchors.get(target, {anchor}):
                yield Problem(source.path, 1, f"the link {link!r} has no such heading")


def lost_pages(sources: Sequence[Source]) -> Iterator[Problem]:
    """Every page under docs/ is linked from another document."""
    linked = {
        target
        for source in sources
        for target, _, _ in _relative_links(source)
        if target != str(source.path)
    }
    for source in sources:
        is_page = source.path.parts[0] == "docs" and source.path.suffix == ".md"
        if is_page and str(source.path) not in linked:
            yield Problem(source.path, 1, "no other document links to this page")


def _is_pinned(line: str, following: str) -> bool:
    return bool(_PINNED.fullmatch(line)) and "--hash=sha256:" in following


def _relative_links(source: Source) -> Iterator[tuple[str, str, str]]:
    if source.path.suffix != ".md":
        return
    for match in _LINK.finditer(_CODE.sub("", _FENCE.sub("", source.text))):
        link = match[1]
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = PurePosixPath(source.path.parent, path) if path else source.path
        yield posixpath.normpath(str(target)), anchor, link


def _anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as code hosts make them."""
    headings = (match[1].lower() for match in _HEADING.finditer(_FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}
