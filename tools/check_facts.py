"""Check the platform facts that ship: complete, sourced, dated in the past, free of keys, said in the platform's words.

Usage: check_facts.py [FOLDER]. Without a folder the profiles of this checkout are checked.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.facts.fact_yaml import read_facts
from leasehold.facts.profiles import Shelf
from leasehold.model.platform.profile import Profile

SHIPPED = Path(__file__).resolve().parent.parent / "src/leasehold/facts/profiles"
WANTED = (
    "autodl", "autodl-pro", "runpod", "vastai", "lambda", "paperspace", "gpushare", "matpool", "featurize", "lanrui",
    "generic-ssh", "slurm", "kubernetes", "colab", "kaggle", "local",
)  # fmt: skip
CHINESE = ("autodl", "autodl-pro", "gpushare", "matpool", "featurize", "lanrui")

# Parts of a profile that carry no source of their own: a price or a deletion said there would be a fact without one.
UNSOURCED = ("traits", "network", "conveniences", "environment", "notes")
_MONEY = re.compile(r"\d\s*(?:USD|CNY|EUR|RMB|元)|[$€¥]\s*\d", re.IGNORECASE)
_LOSS = re.compile(r"\b(?:delet|wip(?:e|ed|es|ing)\b|eras|purg)", re.IGNORECASE)
_RULE = re.compile(r"environment\.never\[.+\]\.")  # a rule of never has a source of its own
_GOTCHA = re.compile(r"[A-Z][A-Z0-9]*[A-Z]\d{1,3}\Z|[A-Z]{2,}-[A-Z]+\Z")
_CJK = re.compile(r"[\u4e00-\u9fff]")
_KEY = re.compile(
    r"\b(?:sk|hf|ghp|gho|rpa|wandb)[-_][A-Za-z0-9]{16,}|\bAKIA[0-9A-Z]{16}|PRIVATE KEY|\beyJ[\w-]{10,}\."
    r"|\b[0-9a-fA-F]{32,}\b|\b(?=[A-Za-z0-9+]*\d)(?=[A-Za-z0-9+]*[a-z])(?=[A-Za-z0-9+]*[A-Z])[A-Za-z0-9+]{36,}"
)


def problems(folder: Path, now_unix: float) -> list[str]:
    """List what is wrong with the profiles of a folder, each with file and key."""
    shelf = Shelf(folder=folder)
    names = shelf.names()
    absent = [name for name in WANTED if name not in names]
    found = [f"{name}.yaml: missing; every platform that the product names ships a profile" for name in absent]
    for name in names:
        found += [f"{name}.yaml: {line}" for line in _of_file(shelf, folder / f"{name}.yaml", now_unix)]
    return found


def _of_file(shelf: Shelf, file: Path, now_unix: float) -> list[str]:
    try:
        raw = read_facts(file.read_text("utf-8"))
        profile = shelf.load(file.stem)
    except (LeaseholdError, ValueError) as error:
        return [getattr(error, "message", str(error))]
    return [*_of_texts(raw), *_of_sources(raw), *_of_profile(profile, now_unix)]


def _of_texts(raw: dict[str, Any]) -> Iterator[str]:
    """Look at the file as written: what stands where no source vouches for it, and what looks like a key."""
    for path, text in _texts(raw, ""):
        if _KEY.search(text):
            yield f"{path}: looks like a key or token; profiles name secrets, they never hold one"
        if not path.startswith(UNSOURCED) or _RULE.match(path):
            continue
        if _MONEY.search(text):
            yield f"{path}: a price without a source; say it in a rate, a verb or a clock"
        if _LOSS.search(text):
            yield f"{path}: a deletion without a source; say it in a tier, a verb or a clock"


def _of_sources(raw: dict[str, Any]) -> Iterator[str]:
    used = {text for path, text in _texts(raw, "") if path.endswith(("source", "billing_source"))}
    for name in raw.get("sources", {}):
        if name not in used:
            yield f"sources.{name}: no fact names it"


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            name = item.get("name", index) if isinstance(item, dict) else index
            yield from _texts(item, f"{path}[{name}]")
    elif isinstance(value, str):
        yield path, value


def _of_profile(profile: Profile, now_unix: float) -> Iterator[str]:
    """Look at the profile as the product sees it, inherited facts included."""
    for what, source in profile.sources():
        if source.months_old(now_unix) < 0:
            yield f"{what}: verified {source.verified} lies in the future"
        if source.confidence in ("conflict", "unverified") and not source.note:
            yield f"{what}: {source.confidence} without a note that says what is doubtful"
    for gotcha in profile.gotchas:
        if not _GOTCHA.match(gotcha):
            yield f"gotchas: {gotcha!r} is no catalogue id such as AD4, K8S2 or AD-DANGER"
    if profile.id in CHINESE:
        for verb in profile.verbs:
            if not _CJK.search(verb.native):
                yield f"verbs[{verb.name}].native: the words on the Chinese console's button are missing"


def main(arguments: list[str]) -> int:
    """Print every problem; 1 when there is one."""
    folder = Path(arguments[0]) if arguments else SHIPPED
    found = problems(folder, time.time())
    for line in found:
        print(f"check_facts: {line}", file=sys.stderr)
    if not found:
        print(f"check_facts: {len(Shelf(folder=folder).names())} profiles, every fact sourced and dated")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
