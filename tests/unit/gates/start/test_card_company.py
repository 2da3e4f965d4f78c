"""A card that somebody else uses refuses the start; one that the job will not see does not."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.gates.start.card_company import judge_company, visible_devices
from leasehold.model.job.job import Artifact, GpuWish, Job
from leasehold.model.run.verdict import Outcome

GIB = 1 << 30


def job(run: str = "python train.py", count: int = 1, **env: str) -> Job:
    return Job("toy", run, (Artifact("x.json", "json"),), env=env, gpu=GpuWish(count=count))


def card(index: int = 0, used_gib: float = 0.0, **more: Any) -> dict[str, Any]:
    known = {"index": str(index), "uuid": f"GPU-{index}aaa", "memory_total_bytes": 80 * GIB, "util_percent": 0}
    return {**known, "memory_used_bytes": int(used_gib * GIB), "processes": None, **more}


def process(pid: int = 7, gib: float | None = 1.0, **more: Any) -> dict[str, Any]:
    memory = None if gib is None else int(gib * GIB)
    return {"pid": pid, "memory_bytes": memory, "here": True, "mine": False, "command": "python other.py", **more}


def refused(found: Any) -> list[str]:
    return [finding.what for finding in found if finding.outcome is Outcome.REFUSED]


@pytest.mark.parametrize(
    "seen, what",
    [
        (card(processes=[process()]), "is used by pid 7 (of another user, 1.1 GB): python other.py"),
        (card(processes=[process(mine=True)]), "pid 7 (yours, 1.1 GB)"),
        (card(processes=[process(gib=None)]), "memory unknown"),
        (card(processes=[process(here=False)]), "gone or in another container"),
        (card(used_gib=9), "already has 9.7 GB in use"),
        (card(util_percent=97), "is 97 % busy"),
    ],
)
def test_a_used_card_refuses_and_says_by_whom(seen: Any, what: str) -> None:
    (said,) = refused(judge_company(job(), [seen]))
    assert said.startswith("GPU 0 ") and what in said


@pytest.mark.parametrize(
    "seen", [card(), card(used_gib=1), card(util_percent=3), card(processes=[process(gib=0.01)]), card(processes=[])]
)
def test_a_free_card_passes(seen: Any) -> None:
    assert refused(judge_company(job(), [seen])) == []


def test_a_busy_first_card_refuses_and_names_the_free_one() -> None:
    (finding,) = judge_company(job(), [card(0, 40), card(1)])
    assert finding.outcome is Outcome.REFUSED
    assert 'CUDA_VISIBLE_DEVICES: "1"' in finding.hint


@pytest.mark.parametrize("named", ["1", "GPU-1aaa", "GPU-1", " 1 "])
def test_a_card_that_the_job_does_not_see_does_not_matter(named: str) -> None:
    assert refused(judge_company(job(CUDA_VISIBLE_DEVICES=named), [card(0, 40), card(1)])) == []
    assert refused(judge_company(job(CUDA_VISIBLE_DEVICES=named), [card(0), card(1, 40)])) != []


def test_the_command_may_name_the_cards_too() -> None:
    wanted = job("CUDA_VISIBLE_DEVICES=1,2 torchrun train.py", count=2)
    assert refused(judge_company(wanted, [card(0, 40), card(1), card(2)])) == []
    assert visible_devices(wanted) == ("1", "2")


def test_named_cards_that_are_not_there_refuse() -> None:
    (said,) = refused(judge_company(job(CUDA_VISIBLE_DEVICES="3"), [card(0)]))
    assert "shows 0 fitting cards; the job asks for 1" in said


@pytest.mark.parametrize("named", ["$CARDS", "MIG-abc"])
def test_a_name_that_cannot_be_read_here_means_all_cards(named: str) -> None:
    assert visible_devices(job(CUDA_VISIBLE_DEVICES=named)) is None
