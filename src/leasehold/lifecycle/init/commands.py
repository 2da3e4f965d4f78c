"""Command lines that a project's own pages show: README, Makefile and shell scripts. Read, never run."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from .facts import Where
from .listing import Listing
from .secret_names import secret_texts

_PAGES = re.compile(
    r"(?:readme[^/]*|makefile|justfile|[^/]*\.md)\Z|(?:scripts/|bin/)?[^/]*\.(?:sh|bash|slurm|sbatch)\Z", re.I
)
_MAX_PAGES = 40
_MAX_LINES = 5_000
_LAUNCHER = re.compile(r"python|torchrun|accelerate|deepspeed|uv +run|poetry +run")
_STARTS = re.compile(
    r"(?P<line>(?:[A-Z_][A-Z0-9_]*=\S* +)*(?:srun +)?"
    r"(?:python[0-9.]*|torchrun|accelerate +launch|deepspeed|uv +run|poetry +run)\s.*)"
)
_UNUSABLE = re.compile(
    r"[<>|;&`{}\[\]$*?!()]|\.\.\.|…|/path/to|path/to/|your[_-]|YOUR[_-]|experiment_name|/home/|/Users/|\\\Z"
)
_ASIDE = re.compile(
    r"eval|test|infer|predict|demo|resume|sample|generate|dummy|debug|fake|toy|\bcpu\b|export|preprocess|prepare|download",
    re.I,
)
_MODULE = re.compile(r"-m +([\w.]+)")
_SCRIPT = re.compile(r"(?<![\w./-])((?:\./)?[\w./-]+\.py)\b")


@dataclass(frozen=True)
class Shown:
    """A command line that some page of the project shows, and the project's file that it starts."""

    script: str
    line: str
    where: Where
    usable: bool


def shown_commands(listing: Listing) -> list[Shown]:
    """List the command lines that start a file of this project, in the order the pages show them."""
    pages = [path for path in listing.paths if _PAGES.match(path)]
    known = set(listing.paths)
    found = []
    for page in sorted(pages, key=_page_order)[:_MAX_PAGES]:
        text = listing.text(page)
        if text is not None:
            found += _on_page(page, text, known)
    return found


def _page_order(path: str) -> tuple[int, str]:
    first = path.lower()
    return (0 if first.startswith("readme") else 1 if "makefile" in first else 2), path


def _on_page(page: str, text: str, known: set[str]) -> list[Shown]:
    lines = text.splitlines()[:_MAX_LINES]
    found, number = [], 0
    while number < len(lines):
        start = number
        whole = lines[number].rstrip()
        while whole.endswith("\\") and number + 1 < len(lines) and number - start < 30:
            number += 1
            whole = whole[:-1].rstrip() + " " + lines[number].strip()
        number += 1
        shown = _read(whole[:600], Where(page, start + 1), known)
        if shown:
            found.append(shown)
    return found


def _read(text: str, where: Where, known: set[str]) -> Shown | None:
    begun = _STARTS.search(text) if _LAUNCHER.search(text) else None
    if not begun:
        return None
    prefix = text[: begun.start()].strip()
    line = begun["line"].strip().rstrip("`").split(" #")[0].strip()
    script = _script(line, known)
    if not script:
        return None
    line = re.sub(r"^srun +|\bCUDA_VISIBLE_DEVICES=\S* +", "", line)
    plain = prefix in ("", "$", ">", "!", "@", "-", "*", "`", "$ ") and line.isprintable()
    usable = plain and not _UNUSABLE.search(line) and not _ASIDE.search(line) and not secret_texts(line)
    return Shown(script, line, where, usable and line.count('"') % 2 == 0 and line.count("'") % 2 == 0)


def _script(line: str, known: set[str]) -> str:
    for word in _SCRIPT.findall(line):
        path = posixpath.normpath(str(word))
        if path in known:
            return path
    module = _MODULE.search(line)
    if module:
        inside = module[1].replace(".", "/")
        for path in (f"{inside}.py", f"src/{inside}.py", f"{inside}/__main__.py", f"src/{inside}/__main__.py"):
            if path in known:
                return path
    return ""
