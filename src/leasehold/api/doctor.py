"""The doctor's verbs: diagnose, explain, search, lint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.errors import UserError


@dataclass(frozen=True)
class DoctorOrder:
    """The evidence to examine, and facts that are already known."""

    targets: tuple[str, ...]
    platform: str = ""
    exit_code: int | None = None
    states: tuple[str, ...] = ()


def diagnose(order: DoctorOrder) -> dict[str, Any]:
    """Diagnose the logs, a run or a box, without quoting secrets; return the findings in rank order."""
    from leasehold.model.values.wording import without_secrets

    seen: dict[str, Any] = without_secrets(_diagnosed(order))
    return seen


def _diagnosed(order: DoctorOrder) -> dict[str, Any]:
    from leasehold.kit.failure.catalogue import shipped
    from leasehold.kit.failure.evidence import Context

    book = shipped()
    context = Context(platform=order.platform, exit_code=order.exit_code, states=order.states)
    if order.targets == ("-",):
        from leasehold.doctor.diagnose import diagnose as look
        from leasehold.doctor.reading import read_stream, standard_input

        return look(book, [read_stream(book, "-", standard_input())], context).as_dict()
    from leasehold.lifecycle.care import ask_doctor

    paths = [word for word in order.targets if Path(word).exists()]
    if paths and len(paths) == len(order.targets):
        return ask_doctor.diagnose_files(book, paths, context).as_dict()
    if len(order.targets) != 1:
        missing = next(word for word in order.targets if word not in paths)
        hint = "several targets are the rank logs of one run; name a run or a box alone"
        raise UserError("doctor.mixed", f"{missing} is no file", hint=hint)
    return _run_or_box(book, order.targets[0], context)


def explain_id(word: str) -> dict[str, Any] | None:
    """Return everything that the catalogue knows of an entry; None when the word is not an id."""
    from leasehold.doctor.finding import ACTIONS
    from leasehold.doctor.remedy import unfilled
    from leasehold.facts.ailments import find

    found = find(word)
    if found is None:
        return None
    retry, action = ACTIONS[found.klass]
    return {
        **_entry(found),
        "retry": retry,
        "action": action,
        "commands": [unfilled(command) for command in found.commands],
    }


def search(words: str, most: int = 10) -> list[dict[str, Any]]:
    """Find entries by symptom, best first."""
    from leasehold.doctor.seek import search as seek

    return [{**_entry(entry), "score": round(score, 2)} for entry, score in seek(words, most)]


def lint(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    """Check Python sources for the most expensive mistakes."""
    from leasehold.doctor.lint import lint_paths

    return [remark.as_dict() for remark in lint_paths([Path(path) for path in paths])]


def _run_or_box(book: Any, word: str, context: Any) -> dict[str, Any]:
    from leasehold.ledger import books
    from leasehold.lifecycle.care import ask_doctor
    from leasehold.lifecycle.home.home import Home

    home = Home.find()
    try:
        books.find_run(home.ledger, word)
    except UserError as no_run:
        if no_run.code != "run.unknown":
            raise
        try:
            return ask_doctor.diagnose_box(home, book, word, context).as_dict()
        except UserError as no_box:
            if no_box.code != "box.unknown":
                raise
            return ask_doctor.diagnose_files(book, [word], context).as_dict()  # its message lists the targets
    return ask_doctor.diagnose_run(home, book, word, context).as_dict()


def _entry(found: Any) -> dict[str, Any]:
    kept = ("id", "title", "symptom", "cause", "fix", "severity", "source", "topic")
    value: dict[str, Any] = {key: getattr(found, key) for key in kept}
    value["class"] = found.klass
    for key in ("refines", "aliases"):
        if getattr(found, key):
            value[key] = list(getattr(found, key))
    return value
