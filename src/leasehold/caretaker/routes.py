"""Map each request to its function; modules are imported on first use, most of them never."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Dict

from leasehold.caretaker.wire.connection import Operation, Request
from leasehold.kit.startup.typing_stub import unhinted

_LOADING = threading.Lock()
_BY_PLACE = {
    "leasehold.caretaker.requests.box": {
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
        "get": "get",
    },
    "leasehold.caretaker.status.observe": {"look": "look", "runs": "runs"},
    "leasehold.caretaker.artifacts.read_in_full": {"prove": "prove"},
    "leasehold.caretaker.uploads.trees": {"have_tree": "have_tree", "put_tree": "put_tree", "want_tree": "want_tree"},
    "leasehold.caretaker.requests.enter": {"enter": "how_to_enter"},
    "leasehold.caretaker.uploads.receive_data": {"want_data": "want_data", "put_data": "put_data"},
    "leasehold.caretaker.uploads.prune_code": {"prune": "prune"},
    "leasehold.caretaker.requests.occupant_requests": {"occupants": "occupants", "clear_occupant": "clear_occupant"},
    "leasehold.caretaker.requests.get_many": {"get_many": "get_many"},
    "leasehold.caretaker.requests.start_stop": {
        "start": "start",
        "resume": "resume",
        "stop": "stop",
        "hush": "hush",
        "take_over": "take_over",
    },
    "leasehold.caretaker.requests.results_home": {"pulled": "pulled"},
    "leasehold.caretaker.requests.force_stop": {"end_by_force": "end_by_force"},
    "leasehold.caretaker.requests.claims": {"claim": "claim", "unclaim": "unclaim", "release": "release"},
    "leasehold.caretaker.requests.move_requests": {
        "fence": "fence_run",
        "left_state": "left_state",
        "kept_in": "kept_in",
        "claim_epoch": "claim_epoch",
        "read_kept": "read_kept",
        "prove_kept": "prove_kept",
        "want_state": "want_state",
        "put_state": "put_state",
        "fetch_state": "fetch_state",
    },
    "leasehold.caretaker.artifacts.send_ranges": {
        "manifest": "seal",
        "chart": "chart",
        "fetch": "fetch",
        "sums": "sums",
    },
    "leasehold.caretaker.refuge.state_chart": {"state_chart": "state_chart"},
    "leasehold.caretaker.requests.power_off": {"power_off": "power_off"},
    "leasehold.caretaker.requests.machine_identity": {"machine": "machine"},
    "leasehold.caretaker.requests.home_note": {"witness": "witness"},
    "leasehold.caretaker.slurm.engine": {"slurm_rehearse": "rehearse"},
    "leasehold.caretaker.attempt.find_adoptable": {"adoptable": "answer"},
    "leasehold.caretaker.gpu.card_survey": {"gpu_survey": "survey", "end_holders": "end_holders"},
    "leasehold.caretaker.disk.disk_survey": {"disk_survey": "survey"},
    "leasehold.caretaker.disk.quarantine": {
        "quarantine": "take",
        "undo_quarantine": "undo",
        "empty_quarantine": "empty",
    },
    "leasehold.caretaker.reboot.resume_hook": {"relaunch_hooks": "hooks"},
    "leasehold.caretaker.notices.send_child": {"send_notices": "answer"},
}


def ping(request: Request) -> None:
    """Answer at once: home measures the round trip."""


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
