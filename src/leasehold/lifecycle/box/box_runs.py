"""The runs on a box, as the box itself reports them: the only source after the loss of a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError
from leasehold.kit.text.safe_text import one_line
from leasehold.ledger import books
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.lifecycle.machine.other_roots import attach_words, known_roots
from leasehold.model.lease.box import BoxEntry, Flavour
from leasehold.model.platform.placing import DEFAULT_ROOT

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.platforms.contract import Engine


def runs_found(home: Home, entry: BoxEntry) -> dict[str, Any]:
    """List the runs in each of our folders there, and how to attach to those that this home does not know.

    {runs, problem}: a problem is the reason why the list may be incomplete.
    """
    if entry.flavour == Flavour.SHELL_ONLY.value:
        return {"runs": [], "problem": "it carries only a terminal, so the runs there cannot be listed"}
    try:
        with box_called(home, entry.name).look_in() as engine:
            return _listed(home, entry, engine)
    except (BoxError, LinkError) as error:
        return {"runs": [], "problem": f"what lies there is unknown: {error.message}"}


def _listed(home: Home, entry: BoxEntry, engine: Engine) -> dict[str, Any]:
    place = entry.root or DEFAULT_ROOT
    roots: list[dict[str, Any]] = [{"root": place, "runs": engine.observe.runs(), "problem": ""}]
    roots += engine.box.machine(known_roots(home))[1]
    found = [_row(home, entry, str(one["root"]), run) for one in roots for run in one.get("runs") or ()]
    problems = [one_line(str(one["problem"])) for one in roots if one.get("problem")]
    return {"runs": found, "problem": "; ".join(problems)}


def _row(home: Home, entry: BoxEntry, root: str, run: dict[str, Any]) -> dict[str, Any]:
    name = one_line(str(run.get("run", "")))
    known = books.run_called(home.ledger, name)
    return {
        "run": name,
        "root": one_line(root),
        "state": one_line(str(run.get("state", ""))),
        "lease": known.lease if known else "",
        "attach": "" if known else attach_words(name, entry.name, "" if root == (entry.root or DEFAULT_ROOT) else root),
    }
