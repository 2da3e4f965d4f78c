"""Conversations through a `kubectl exec` that harms its stream: the truth, or an error in time; never a wrong byte.

LEASEHOLD_EXAMPLES=10000 holds that many conversations, LEASEHOLD_SEED=7 others than usual.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.errors import BoxError, LinkError
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
from leasehold.transport import hello, wire
from leasehold.transport.exec import checked_link
from leasehold.transport.exec.kubectl import Kubectl, KubectlTransport
from leasehold.transport.wire import Wire
from tests.contract.doors import Code, Door, laid_out
from tests.support.beds import kubectl_bed
from tests.support.parcels import stock

EXAMPLES = int(os.environ.get("LEASEHOLD_EXAMPLES", 8))
SEED = int(os.environ.get("LEASEHOLD_SEED", 1))
FAULTS = ("cut", "truncate", "repeat", "drop", "change", "freeze", "no-end", "none")
_SILENT_S = 2.0
_DEADLINE_S = 60.0


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Give a box behind the stand-in, with the parcel there and little patience."""
    with kubectl_bed(tmp_path) as bed:
        for name, value in bed.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(wire, "HANDSHAKE_TIMEOUT_S", 5.0)
        monkeypatch.setattr(hello, "HANDSHAKE_TIMEOUT_S", 5.0)
        monkeypatch.setattr(checked_link.CheckedLink.__init__, "__defaults__", (_SILENT_S,))
        made = Door(KubectlTransport(Kubectl("", ""), lambda: "pod", "train"), str(bed.root), bed.root)
        yield made
        for one in made.wires:
            one.close()


@pytest.mark.full
def test_no_harmed_conversation_leaves_a_wrong_byte(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    stock(door.root)
    chance = random.Random(SEED)
    told = 0
    for number in range(EXAMPLES):
        fault = f"{FAULTS[number % len(FAULTS)]}:{chance.randrange(0, 12)}:{chance.choice(('in', 'out'))}"
        monkeypatch.setenv("LEASEHOLD_EXEC_FAULT", fault)
        code = Code({"a.bin": chance.randbytes(chance.choice((10, 40_000, 300_000))), "b.txt": b"%d" % number})
        begun = time.monotonic()
        with contextlib.suppress(LinkError, BoxError):
            told += _converse(door, code, fault)
        assert time.monotonic() - begun < _DEADLINE_S, fault
        monkeypatch.setenv("LEASEHOLD_EXEC_FAULT", "none:0:out")
    assert told


def _converse(door: Door, code: Code, fault: str) -> bool:
    """Send code, have it laid out, and compare; return whether the box said that it has it all."""
    with Wire(door.transport, door.place, patience_s=5.0) as opened:
        CaretakerEngine(opened).uploads.push(code)
    target = door.root.parent / f"laid-{code.sha256[:12]}"
    assert laid_out(door, code, target) == code.files, fault
    return True
