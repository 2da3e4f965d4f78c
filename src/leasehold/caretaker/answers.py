"""Which function answers which request; each is imported when it is first asked for, and most never are."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Dict

from leasehold.kit.unhinted import unhinted

from .serve import Operation, Request

_LOADING = threading.Lock()
_BY_PLACE = {
    "leasehold.caretaker.operations": {
        "probe": "probe",
        "events": "events",
        "tail": "tail",
        "follow": "follow",
        "fingerprint": "fingerprint",
        "salvageable": "salvageable",
        "readings": "take_readings",
        "series": "tell_series",
        "probe_tier": "probe_tier",
        "leave_note": "leave_note",
        "find_note": "find_note",
        "drop_note": "drop_note",
        "hogs": "find_hogs",
        "check_env": "check_env",
        "check_secrets": "check_secrets",
        "send_notices": "send_notices",
        "get": "get",
    },
    "leasehold.caretaker.observing": {"look": "look", "runs": "runs"},
    "leasehold.caretaker.proving": {"prove": "prove"},
    "leasehold.caretaker.trees": {"have_tree": "have_tree", "put_tree": "put_tree", "want_tree": "want_tree"},
    "leasehold.caretaker.entering": {"enter": "how_to_enter"},
    "leasehold.caretaker.taking_data": {"want_data": "want_data", "put_data": "put_data"},
    "leasehold.caretaker.pruning": {"prune": "prune"},
    "leasehold.caretaker.occupying": {"occupants": "occupants", "clear_occupant": "clear_occupant"},
    "leasehold.caretaker.many_files": {"get_many": "get_many"},
    "leasehold.caretaker.starting": {
        "start": "start",
        "resume": "resume",
        "stop": "stop",
        "hush": "hush",
        "take_over": "take_over",
    },
    "leasehold.caretaker.told_home": {"pulled": "pulled"},
    "leasehold.caretaker.forcing": {"end_by_force": "end_by_force"},
    "leasehold.caretaker.claiming": {"claim": "claim", "unclaim": "unclaim", "release": "release"},
    "leasehold.caretaker.sending": {"manifest": "seal", "chart": "chart", "fetch": "fetch", "sums": "sums"},
    "leasehold.caretaker.power": {"power_off": "power_off"},
    "leasehold.caretaker.machine": {"machine": "machine"},
    "leasehold.caretaker.witness": {"witness": "witness"},
    "leasehold.caretaker.slurm.engine": {"slurm_rehearse": "rehearse"},
    "leasehold.caretaker.hygiene": {
        "adoptable": "adoptable",
        "gpu_survey": "gpu_survey",
        "end_holders": "end_holders",
        "disk_survey": "disk_survey",
        "quarantine": "quarantine",
        "undo_quarantine": "undo_quarantine",
        "empty_quarantine": "empty_quarantine",
        "relaunch_hooks": "relaunch_hooks",
    },
}


def ping(request: Request) -> None:
    """Answer at once: home measures how far it is."""


def found(place: str, name: str) -> Operation:
    """Return a function of a module of ours."""
    with _LOADING, unhinted():
        operation: Operation = getattr(import_module(place), name)
    return operation


def _late(place: str, name: str) -> Operation:
    def answer(request: Request) -> None:
        found(place, name)(request)

    return answer


OPERATIONS: Dict[str, Operation] = {
    "ping": ping,
    **{asked: _late(place, name) for place, names in _BY_PLACE.items() for asked, name in names.items()},
}
