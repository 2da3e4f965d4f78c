"""The candidates of `lease plan`: boxes of the book, addresses and platforms. Nothing is connected to."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from leasehold.errors import UserError
from leasehold.ledger import box_book
from leasehold.lifecycle.box.platform_choice import platform_at
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import find_box
from leasehold.model.job.job import Job
from leasehold.model.lease.box import K8S, LOCAL, SSH
from leasehold.model.platform.placing import placed
from leasehold.model.platform.plan_sheet import Wishes

from .plan_inputs import Planned, judge, judge_on_box, known_of

EVERY = "all"


def plan_candidates(
    home: Home, job: Job, asked: tuple[str, ...], wishes: Wishes, where_when: tuple[Path, float]
) -> Iterator[Planned]:
    """Judge the job on each candidate: a box of the book, ssh:…, k8s:…, or a platform; `all` is every platform."""
    project, now_unix = where_when
    shelf = home.shelf(project)
    names = asked or job.candidates or (LOCAL,)
    for name in shelf.names() if EVERY in names else names:
        if box_book.find(home.ledger, name) is not None or name.startswith((SSH, K8S)):
            box = find_box(home, name, root=wishes.root)
            if name.startswith(SSH):
                box = replace(box, platform=platform_at(home, name))
            yield judge_on_box(home, box, job, wishes, now_unix, project)
        elif name == LOCAL:
            known = known_of(home, find_box(home, name, root=wishes.root), wishes, now_unix)
            yield judge(name, job, shelf.load(name), known, now_unix)
        elif name in shelf.names():
            yield judge(name, job, placed(shelf.load(name), wishes.root), wishes, now_unix)
        else:
            raise _nowhere(home, name, shelf.names())


def _nowhere(home: Home, name: str, platforms: list[str]) -> UserError:
    known = [*platforms, *(entry.name for entry in box_book.entries(home.ledger))]
    near = difflib.get_close_matches(name, known, 1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else "lease platforms and lease box list name them; ssh:HOST and k8s:CONTEXT are some too"
    )
    return UserError("plan.unknown_candidate", f"{name!r} is neither a platform nor a box of the book", hint=hint)
