"""Check that a run's folder can be read: missing or damaged files mean unknown, never nothing."""

from __future__ import annotations

import os
from typing import Any, Mapping

from leasehold.caretaker.wire.refused import Refused
from leasehold.kit.files import file_layouts
from leasehold.kit.files.atomic import read_object

from . import ownership
from .run_folder import RunFolder

_EVIDENCE = ("journal", "manifest", "added", "promises")  # files that only a run which was begun has


def problem_of(folder: RunFolder) -> str:
    """Return why a run's folder cannot be judged; empty where it can, or where nothing was ever begun in it."""
    try:
        plan = read_object(folder.plan)
        if plan is not None:
            require_known(folder)
            return "" if is_plan(plan) else "its plan.json is garbled"
    except file_layouts.NewerLayout as error:
        return str(error)
    except ValueError as error:
        return "its plan.json %s" % error
    found = _what_lies(folder)
    return "its plan.json is missing, and %s lies there" % found if found else ""


def require_known(folder: RunFolder) -> None:
    """Raise NewerLayout where the plan is of a layout that this version does not know."""
    try:
        plan = read_object(folder.plan)
    except file_layouts.NewerLayout:
        raise
    except ValueError:
        return  # the code that needs it reports that
    if plan is not None and plan.get("schema", file_layouts.PLAN) != file_layouts.PLAN:
        writer = str(ownership.read(folder).get("version") or "")
        file_layouts.require(plan, file_layouts.PLAN, "the plan.json of %s" % folder.run, writer)


def refuse_newer(folder: RunFolder) -> None:
    """Refuse to touch a run that a newer version has planned."""
    try:
        require_known(folder)
    except file_layouts.NewerLayout as error:
        raise Refused("layout.newer", str(error)) from None


def is_plan(plan: Mapping[str, Any]) -> bool:
    """Return whether it lists what a run holds and what it promised."""
    names = [plan.get("cells"), plan.get("patterns")]
    return all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in names)


def _what_lies(folder: RunFolder) -> str:
    for name in _EVIDENCE:
        path = str(getattr(folder, name))
        if os.path.lexists(path):
            return os.path.basename(path)
    for name in ("out", "cells"):
        for place, _, files in os.walk(os.path.join(folder.path, name)):
            kept = [one for one in files if one != "lock"]
            if kept:
                return os.path.relpath(os.path.join(place, min(kept)), folder.path)
    return ""
