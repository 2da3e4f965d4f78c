"""The handbook at home: the box's page, stored beside the results for when the box is out of reach."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.kit.files.atomic import write_atomic
from leasehold.kit.run.handbook_page import blank_facts, render
from leasehold.kit.text.safe_text import plain
from leasehold.ledger import books
from leasehold.lifecycle.home.home import Home, person
from leasehold.lifecycle.machine.box import Box, find_box
from leasehold.lifecycle.project.code_tree import RESULTS
from leasehold.model.platform.platform_wording import say_ends

if TYPE_CHECKING:
    from leasehold.model.lease.lease import Lease, RunRecord
    from leasehold.model.platform.profile import Profile
    from leasehold.model.run.plan import Plan

_MOST_WORDS = 12


@dataclass(frozen=True)
class Stay:
    """A run's place: its plan, its lease, its box, and the two folders at home."""

    plan: Plan
    lease: Lease
    box: Box
    project: Path
    results: Path
    job_file: str


def facts_of(home: Home, stay: Stay, profile: Profile, channels: int) -> dict[str, Any]:
    """Collect what home knows and the box does not; none of it is secret."""
    return {
        **blank_facts(stay.plan.as_dict()),
        "box": stay.box.name,
        "platform": profile.title,
        "login": login_of(stay.box),
        "price": stay.lease.price,
        "project": str(stay.project),
        "results": str(stay.results),
        "again": shlex.join(["lease", "run", *_words(home, stay)]),
        "elsewhere": shlex.join(["lease", "run", *_words_elsewhere(stay)]),
        "root": stay.box.root if _own_root(home, stay) else "",
        "verbs": [{"name": verb.native or verb.name, "what": _verb(verb)} for verb in profile.verbs],
        "who": f"{person()} on {socket.gethostname()}",
        "channels": channels,
    }


def _words(home: Home, stay: Stay) -> list[str]:
    """List the arguments of `lease run` that mean this run."""
    words = [] if stay.job_file == "lease.yaml" else [stay.job_file]
    if stay.box.platform == "rehearsal":
        return [*words, "--rehearse"]
    words += [] if stay.box.name == "local" else ["--on", stay.box.name]
    words += ["--root", stay.box.root] if _own_root(home, stay) else []
    return words if stay.results == stay.project / RESULTS else [*words, "--results", str(stay.results)]


def _words_elsewhere(stay: Stay) -> list[str]:
    """List the arguments of `lease run` that start the same job on another box."""
    words = [] if stay.job_file == "lease.yaml" else [stay.job_file]
    words += ["--on", "OTHER", "--again"]
    return words if stay.results == stay.project / RESULTS else [*words, "--results", str(stay.results)]


def _own_root(home: Home, stay: Stay) -> bool:
    return stay.box.platform != "rehearsal" and stay.box.root != find_box(home, stay.box.name).root


def login_of(box: Box) -> str:
    """Return the command that logs in there; empty for this machine."""
    own = getattr(box.transport, "login_words", None)
    if own is not None:
        return shlex.join(own())
    address = getattr(box.transport, "address", None)
    if address is None:
        return ""
    words = shlex.split(os.environ.get("LEASEHOLD_SSH", "ssh"))
    words += ["-p", str(address.port)] if address.port else []
    words += ["-i", os.path.expanduser(address.identity)] if address.identity else []
    return shlex.join([*words, f"{address.user}@{address.host}" if address.user else address.host])


def keep(home: Home, run: str, facts: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    """Save the page's data and write the page; a failure does not stop a launch."""
    memory = {"facts": dict(facts), "place": _checked(seen.get("place")), "state": _state(seen)}
    with contextlib.suppress(OSError):
        _memory(home, run).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(str(_memory(home, run)), json.dumps(memory).encode("utf-8"))
        _write_page(memory)


def refresh(home: Home, record: RunRecord, state: Mapping[str, Any] | None = None) -> None:
    """Write the page again after the run's state changed."""
    memory = recall(home, record)
    memory["state"] = {**memory["state"], **_state(state or {}), "state": record.state, "reason": record.reason}
    keep(home, record.run, memory["facts"], {"place": memory["place"], **memory["state"]})


def page(home: Home, word: str) -> tuple[str, str]:
    """Return a run's id and its handbook as this home knows it now."""
    record = books.find_run(home.ledger, word)
    memory = recall(home, record)
    state = {**memory["state"], "state": record.state, "reason": record.reason}
    return record.run, plain(render(memory["facts"], memory["place"], state, record.seen_unix or time.time()))


def recall(home: Home, record: RunRecord) -> dict[str, Any]:
    """Read the page's data; a run that another home started has only its plan and its lease here."""
    try:
        found: dict[str, Any] = json.loads(_memory(home, record.run).read_text("utf-8"))
        return {**found, "place": found["place"] or _usual_place(home, record)}
    except (OSError, ValueError, KeyError):
        facts = {**blank_facts(json.loads(record.plan_json)), "box": record.box, "results": record.results}
        return {"facts": facts, "place": _usual_place(home, record), "state": {"cells": {}}}


def _write_page(memory: Mapping[str, Any]) -> None:
    results = memory["facts"].get("results")
    if not results or not memory["place"]:
        return
    target = Path(results) / "handbook" / f"{memory['facts']['run']}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    ignore = Path(results) / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    text = render(memory["facts"], memory["place"], memory["state"], time.time())
    write_atomic(str(target), text.encode("utf-8", "replace"), durable=False)


def _usual_place(home: Home, record: RunRecord) -> dict[str, Any]:
    root = books.find_lease(home.ledger, record.lease).root or "~/.leasehold"
    return {"folder": f"{root}/active/{record.run}", "root": root, "care": []}


def _checked(place: Any) -> dict[str, Any]:
    """Accept only valid paths from the box: they go into commands, quoted."""
    if not isinstance(place, dict):
        return {}
    words = place.get("care")
    care = [str(word) for word in words[:_MOST_WORDS]] if isinstance(words, list) else []
    values = [str(place.get("folder", "")), str(place.get("root", "")), *care]
    if not all(value.isprintable() and len(value) < 4096 for value in values) or not values[0].startswith("/"):
        return {}
    return {"folder": values[0], "root": values[1], "care": care}


def _state(seen: Mapping[str, Any]) -> dict[str, Any]:
    cells = seen.get("cells")
    known = {
        str(name): {key: cell.get(key) for key in ("state", "attempt", "pid")}
        for name, cell in (cells.items() if isinstance(cells, Mapping) else ())
        if isinstance(cell, Mapping)
    }
    said = {key: seen[key] for key in ("state", "reason", "seq") if key in seen}
    return {**said, **({"cells": known} if known else {})}


def _verb(verb: Any) -> str:
    gone = ", ".join(verb.deletes) or "nothing"
    kept = f"; keeps {', '.join(verb.keeps)}" if verb.keeps else ""
    undo = "can be undone" if verb.reversible else "cannot be undone"
    return f"deletes {gone}{kept}; {undo}; {say_ends(verb)}"


def _memory(home: Home, run: str) -> Path:
    return home.path / "handbooks" / f"{run}.json"
