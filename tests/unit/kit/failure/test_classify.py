"""One class for one failure: what lies nearest to the hardware decides, and the log outranks a mere kill."""

from __future__ import annotations

from typing import List, Optional

import pytest

from leasehold.kit.failure.catalogue import shipped
from leasehold.kit.failure.classify import Classed, DiskNow, classify
from leasehold.kit.failure.evidence import Context
from leasehold.kit.failure.log_scan import scan
from leasehold.kit.failure.precedence import Candidate
from leasehold.kit.failure.suspects import ReadLog, suspects
from leasehold.kit.failure.who_killed_it import Vanished, descend

BOOK = shipped()
ROOMY = DiskNow(10**12, 10**6)
FULL = DiskNow(1000, 10**6)


def suspected(log: str, code: Optional[int]) -> List[Candidate]:
    read = ReadLog("log", None, scan(BOOK, iter([log.encode()])))
    return suspects(BOOK, [read], Context(exit_code=code))[0]


def classed(log: str, facts: Vanished, disk: DiskNow = ROOMY) -> Classed:
    code = 128 + facts.signal if facts.signal else facts.code
    return classify(descend(facts), suspected(log, code), disk)


KEY_ERROR = "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 'lr'\n"


@pytest.mark.parametrize(
    ("log", "facts", "disk", "klass"),
    [
        (KEY_ERROR, Vanished(code=1), ROOMY, "bug"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", Vanished(code=1), ROOMY, "bug"),
        ("OSError: [Errno 28] No space left on device: 'x'\n", Vanished(code=1), ROOMY, "disk_full"),
        ("it just ended\n", Vanished(code=1), FULL, "disk_full"),
        ("it just ended\n", Vanished(code=1), DiskNow(10**12, 0), "disk_full"),
        ("503 Server Error: Service Unavailable for url: https://x\n", Vanished(code=1), ROOMY, "probabilistic"),
        ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n", Vanished(code=1), ROOMY, "hardware"),
        ("NVRM: Xid (PCI:0000:01:00): 48, Double Bit ECC\n", Vanished(signal=9), FULL, "hardware"),
        ("epoch 1\n", Vanished(signal=9), ROOMY, "probabilistic"),
        ("epoch 1\n", Vanished(signal=9, oom_kills_then=0, oom_kills_now=1), ROOMY, "bug"),
        ("epoch 1\n", Vanished(signal=15, noticed="SIGTERM"), ROOMY, "preempted"),
        ("slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n",
         Vanished(signal=15), ROOMY, "walltime"),
        ("epoch 1\n", Vanished(lost=True, boot_then="a", boot_now="b"), ROOMY, "preempted"),
        ("epoch 1\n", Vanished(lost=True), ROOMY, "unknown"),
        ("epoch 1\n", Vanished(code=17), ROOMY, "unknown"),
        (KEY_ERROR, Vanished(signal=9), ROOMY, "bug"),
    ],
)  # fmt: skip
def test_each_failure_has_its_class(log: str, facts: Vanished, disk: DiskNow, klass: str) -> None:
    found = classed(log, facts, disk)
    assert (found.klass, bool(found.why), bool(found.evidence)) == (klass, True, True)


def test_failures_by_different_signs_differ_but_interruptions_do_not() -> None:
    assert classed(KEY_ERROR, Vanished(code=1)).sign == "PY7"
    assert classed("x\n", Vanished(code=17)).sign == "exited"
    assert classed("x\n", Vanished(signal=9)).sign == ""
    assert classed("x\n", Vanished(lost=True)).sign == ""


def test_a_card_that_failed_outranks_what_the_log_says_of_it() -> None:
    broken = ["Xid 79: the card fell off the bus (Xid 79)"]
    found = classify(descend(Vanished(code=1)), suspected(KEY_ERROR, 1), ROOMY, broken)
    assert (found.klass, found.evidence[0]) == ("hardware", broken[0])
