"""Every request has its answer, though none is imported before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.caretaker import routes

SOURCES = Path(routes.__file__).resolve().parents[2]
PLACES = [(place, name) for place, names in routes._BY_PLACE.items() for name in names.values()]


@pytest.mark.parametrize(("place", "name"), PLACES, ids=lambda word: str(word))
def test_there_is_a_function_behind_each(place, name):
    assert callable(routes.found(place, name))


def test_no_request_is_named_twice():
    assert len(routes.OPERATIONS) == 1 + len(PLACES)


def test_nothing_heavy_is_imported_before_it_is_asked_for():
    said = "import sys; sys.path.insert(0, %r); import leasehold.caretaker.routes; print(*sys.modules)" % str(SOURCES)
    loaded = subprocess.check_output([sys.executable, "-I", "-S", "-c", said], universal_newlines=True).split()
    assert not {
        "subprocess",
        "hashlib",
        "leasehold.caretaker.supervisor.caretaker",
        "leasehold.caretaker.requests.start_stop",
    } & set(loaded)
