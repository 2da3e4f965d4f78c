"""Command lines shown in a project's own pages: README, Makefile and shell scripts. Read, never run."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from leasehold.lifecycle.init.text.page import PLACEHOLDER
from leasehold.lifecycle.init.text.project_facts import Where
from leasehold.lifecycle.init.text.project_files import Listing
from leasehold.lifecycle.init.text.secret_names import secret_texts

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
_OPEN = re.compile(  # a value that each reader must choose
    r"[<>|;&`{}\[\]$*?!()]|\.\.\.|…|/path/to|path/to/|your[_-]|YOUR[_-]|experiment_name|/home/|/Users/|\\\Z"
)
_GROUP = re.compile(
    r"(?<!\S)(?:\[[^\[\]]*\]|<[^<>]*>)(?!\S)"
)  # [folder with images], <your data>; [--flag] is optional
_ENDS = re.compile(r"\s(?:&&|\|\|?|;|&|[0-9]?>>?)(?=\s|\Z).*|[;&]\Z")
_ASIDE = re.compile(
    r"(?:^|[_/.-])(?:eval\w*|test\w*|infer\w*|predict\w*|demo|sample|generate|dummy|debug|fake|toy|export|preprocess|"
    r"prepare|download)(?:[_.-]|\Z)", re.I,
)  # fmt: skip
_ASIDE_FLAGS = re.compile(
    r"--?(?:evaluate|eval(?:[_-]only)?|test(?:[_-]only)?|infer(?:ence)?|predict|demo|(?:resume|restore|continue)(?:[_-]\w+)?|sample|generate|"
    r"dummy|debug|fake\w*|dry[_-]run|fast[_-]dev[_-]run|multirun|help|h)(?:=.*)?\Z"
    r"|(?:ckpt_path|debug|hparams_search)=.*", re.I,
)  # fmt: skip
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_MODULE = re.compile(r"-m +([\w.]+)")
_SCRIPT = re.compile(r"(?<![\w./-])((?:\./)?[\w./-]+\.py)\b")


@dataclass(frozen=True)
class Shown:
    """A command line shown on a page of the project, and the project's file that it starts."""

    script: str
    line: str
    where: Where
    usable: bool


def shown_commands(listing: Listing) -> list[Shown]:
    """List the command lines that start a file of this project, in page order."""
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
    line = _ENDS.sub("", re.sub(r"^srun +|\bCUDA_VISIBLE_DEVICES=\S* +", "", line)).strip()
    plain = prefix in ("", "$", ">", "!", "@", "-", "*", "`", "$ ") and line.isprintable()
    if not plain or line.count('"') % 2 or line.count("'") % 2 or secret_texts(line):
        return Shown(script, line, where, False)
    kept = _kept(line)
    return Shown(script, kept or line, where, bool(kept))


def _kept(line: str) -> str:
    """Keep a command's own flags; a placeholder value becomes a mark. Return nothing when it does not train."""
    words = _WORD.findall(_GROUP.sub(lambda group: "" if group[0][1:2] == "-" else PLACEHOLDER, line))
    start = next((at for at, word in enumerate(words) if _SCRIPT.fullmatch(word) or word == "-m"), len(words))
    if _ASIDE.search(words[start]) if start < len(words) else True:
        return ""
    rest = words[start + 1 :] if words[start] != "-m" else words[start + 2 :]
    if any(_ASIDE_FLAGS.match(word) for word in rest):
        return ""
    head = " ".join(words[: len(words) - len(rest)])
    if _OPEN.search(head) or re.search(r"(?:nproc[-_]per[-_]node|num_processes)[= ][A-Z]", head):
        return ""
    return " ".join([head, *map(_filled, rest)])


def _filled(word: str) -> str:
    """Put the mark in place of a word's placeholder value."""
    if not _OPEN.search(word):
        return word
    name, equals, _ = word.partition("=")
    return f"{name}={PLACEHOLDER}" if equals and not _OPEN.search(name) else PLACEHOLDER


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
