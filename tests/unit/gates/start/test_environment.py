"""The environment gate: what the job's own interpreter said, judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from leasehold.gates.start.environment import judge_credentials, judge_environment, verdict_of, wanted_modules
from leasehold.kit.tables.env_rules import judge_frameworks
from leasehold.model.job.job import Artifact, GpuWish, Job
from leasehold.model.run.verdict import Outcome, Verdict


def job(gpus: int = 0) -> Job:
    return Job("toy", "python t.py", (Artifact("a.pt", "torch"),), gpu=GpuWish(count=gpus) if gpus else None)


def answer(torch: dict[str, Any] | None = None, **modules: dict[str, Any]) -> dict[str, Any]:
    facts = {"version": "3.12.1", "executable": "/venv/bin/python", "modules": modules}
    if torch is not None:
        facts["torch"] = torch
        facts["modules"] = {"torch": {"ok": True, "version": "2.5.1"}, **modules}
    return {"interpreter": "python", "problem": "", "facts": facts}


def cuda(*capabilities: tuple[int, int], arch: tuple[str, ...] = ("sm_80", "sm_90", "compute_90")) -> dict[str, Any]:
    devices = [{"name": f"card {number}", "capability": list(one)} for number, one in enumerate(capabilities)]
    return {"cuda_build": "12.4", "cuda_available": True, "devices": devices, "arch_list": list(arch)}


def against(verdict: Verdict) -> list[str]:
    return [finding.what for finding in verdict.against()]


def test_only_frameworks_are_asked_for() -> None:
    assert wanted_modules({"os", "torch", "numpy", "mypkg"}) == ("torch", "numpy")


def test_a_command_without_an_interpreter_passes_with_nothing_asked() -> None:
    verdict = judge_environment(job(), ("torch",), {"problem": "no Python interpreter is named in the command"})
    assert verdict.passed
    assert verdict.findings[0].what.startswith("no Python interpreter is named")


def test_an_interpreter_that_does_not_start_is_refused() -> None:
    said = {"interpreter": "python3.9", "problem": "python3.9 exited with 127: not found"}
    verdict = judge_environment(job(), (), said)
    assert against(verdict) == ["python3.9 exited with 127: not found"]
    assert "full path" in verdict.against()[0].hint


def test_every_wanted_module_is_judged() -> None:
    modules = {"numpy": {"ok": True, "version": "2.1"}, "jax": {"ok": False, "error": "ModuleNotFoundError: No module"}}
    verdict = judge_environment(job(), ("jax", "numpy", "lightning"), answer(**modules))
    assert against(verdict) == [
        "cannot import jax: ModuleNotFoundError: No module",
        "cannot import lightning: not asked",
    ]
    assert "put the install into `setup`" in verdict.against()[0].hint
    assert [f.what for f in verdict.findings if f.outcome is Outcome.PASSED] == [
        "python is Python 3.12.1 at /venv/bin/python",
        "imports numpy 2.1",
    ]


def test_without_a_gpu_wish_a_cpu_torch_is_fine() -> None:
    verdict = judge_environment(job(), ("torch",), answer({"cuda_build": None, "cuda_available": False, "devices": []}))
    assert verdict.passed


@pytest.mark.parametrize("build, why", [(None, "this torch is a CPU build"), ("12.4", "torch is built for CUDA 12.4")])
def test_with_a_gpu_wish_torch_must_see_the_card(build: str | None, why: str) -> None:
    blind = {"cuda_build": build, "cuda_available": False, "devices": []}
    verdict = judge_environment(job(1), ("torch",), answer(blind))
    assert against(verdict) == [f"torch.cuda.is_available() is False ({why})"]


def test_a_gpu_wish_without_torch_is_not_torchs_business() -> None:
    assert judge_environment(job(1), ("numpy",), answer(numpy={"ok": True, "version": "2"})).passed


@pytest.mark.parametrize("seen, asked, passes", [(2, 2, True), (4, 2, True), (1, 2, False), (0, 1, False)])
def test_torch_must_see_as_many_cards_as_the_job_asks_for(seen: int, asked: int, passes: bool) -> None:
    verdict = judge_environment(job(asked), ("torch",), answer(cuda(*[(9, 0)] * seen)))
    assert verdict.passed is passes
    if not passes:
        assert against(verdict) == [f"torch sees {seen} devices, and the job asks for {asked}"]


@pytest.mark.parametrize(
    "capability, arch, runs",
    [
        ((9, 0), ("sm_80", "sm_90"), True),  # the very one
        ((8, 6), ("sm_80",), True),  # binaries run on later minors of their major
        ((8, 0), ("sm_86",), False),  # but not on earlier ones
        ((9, 0), ("sm_80", "sm_86"), False),  # nor on another major
        ((12, 0), ("sm_50", "sm_90"), False),  # a new card and an old build: the common refusal
        ((12, 0), ("sm_90", "compute_90"), True),  # PTX is compiled for later cards at start
        ((8, 0), ("compute_90",), False),  # never for earlier ones
        ((10, 0), ("sm_100",), True),  # three digits: major 10, minor 0
        ((12, 1), ("sm_120",), True),
        ((1, 2), ("sm_120",), False),
        ((9, 0), ("sm_90a",), True),  # `a` is exactly that card
        ((10, 3), ("sm_100a",), False),
        ((10, 0), ("compute_90a",), False),  # also as PTX
        ((10, 3), ("sm_100f",), True),  # `f` is its family
        ((12, 0), ("compute_100f",), False),
        ((8, 0), (), False),
        ((8, 0), ("sm_", "nonsense", "gfx90a"), False),
    ],
)
def test_the_build_must_have_code_for_the_card(capability: tuple[int, int], arch: tuple[str, ...], runs: bool) -> None:
    verdict = judge_environment(job(1), ("torch",), answer(cuda(capability, arch=arch)))
    assert verdict.passed is runs
    if not runs:
        assert against(verdict)[0].startswith(f"card 0 is sm_{capability[0]}{capability[1]}; torch has ")
        assert "install a newer build" in verdict.against()[0].hint


def test_one_card_without_code_among_many_is_enough_to_refuse() -> None:
    verdict = judge_environment(job(1), ("torch",), answer(cuda((9, 0), (6, 1))))
    assert [text.split(";")[0] for text in against(verdict)] == ["card 1 is sm_61"]


# ---------------------------------------------------------------- set-up and the frameworks of an image

TORCH = {"version": "2.1.0+cu121", "cuda": "12.1", "file": "/x/torch/__init__.py", "pip": True}
CUDNN = {"version": "8.9", "cuda": "", "file": "", "pip": True}


def judged(before: dict[str, Any], after: dict[str, Any], swap: bool = False) -> list[tuple[str, str]]:
    return [(one["outcome"], one["what"]) for one in judge_frameworks(before, after, swap, "/usr/bin/python")]


def test_frameworks_that_stayed_pass() -> None:
    both = {"torch": TORCH, "nvidia-cudnn-cu12": CUDNN}
    assert judged(both, both) == [
        ("passed", "torch is still 2.1.0+cu121 (CUDA 12.1)"),
        ("passed", "nvidia-cudnn-cu12 is still 8.9"),
    ]
    assert judged({}, both) == []


def test_a_changed_version_or_cuda_build_is_refused_with_the_cure() -> None:
    for now in ({**TORCH, "version": "2.0.1"}, {**TORCH, "cuda": "11.8"}, None):
        (found,) = judge_frameworks({"torch": TORCH}, {"torch": now} if now else {}, False, "/usr/bin/python")
        assert found["outcome"] == "refused"
        assert found["what"].startswith("torch was 2.1.0+cu121 (CUDA 12.1) and is ")
        assert "`/usr/bin/python -m pip install --no-deps torch==2.1.0+cu121 --index-url " in found["hint"]


def test_what_comes_with_a_torch_is_judged_only_while_that_torch_stays() -> None:
    before = {"torch": TORCH, "nvidia-cudnn-cu12": CUDNN}
    assert [one for one, _ in judged(before, {"torch": TORCH, "nvidia-cudnn-cu12": {**CUDNN, "version": "9"}})] == [
        "passed",
        "refused",
    ]
    assert len(judged(before, {"torch": {**TORCH, "version": "2.2"}})) == 1


def test_a_job_that_asks_for_its_own_torch_may_change_it() -> None:
    ((outcome, what),) = judged({"torch": TORCH}, {"torch": {**TORCH, "version": "2.2"}}, swap=True)
    assert outcome == "passed" and what.endswith("(setup_frameworks: replace)")


def test_before_a_setup_missing_is_unknown_and_what_is_kept_is_judged() -> None:
    with_setup = replace(job(1), setup="pip install x")
    missing = judge_environment(with_setup, ("torch",), answer(torch=None, numpy={"ok": True}))
    assert missing.outcome is Outcome.UNKNOWN
    assert "asked again on the box after `setup`" in missing.against()[0].hint
    blind = answer({"cuda_build": None, "cuda_available": False, "devices": []})
    blind["facts"]["frameworks"] = {"torch": TORCH}
    assert judge_environment(with_setup, ("torch",), blind).outcome is Outcome.REFUSED
    swapped = replace(with_setup, setup_frameworks="replace")
    assert judge_environment(swapped, ("torch",), blind).outcome is Outcome.UNKNOWN


# ---------------------------------------------------------------- trackers


def said(outcome: str, text: str) -> dict[str, Any]:
    return {"secret": "HF_TOKEN", "tracker": "Hugging Face", "outcome": outcome, "said": text, "page": "https://page"}


def test_a_trackers_answer_names_the_secret_and_where_it_came_from() -> None:
    (passed, refused, unknown) = judge_credentials(
        [said("passed", "accepted, account ada"), said("refused", "does not accept it"), said("unknown", "no answer")]
    ).findings
    assert (passed.outcome, passed.what) == (Outcome.PASSED, "HF_TOKEN: accepted, account ada (Hugging Face)")
    assert (refused.outcome, refused.what) == (Outcome.REFUSED, "HF_TOKEN: Hugging Face does not accept it")
    assert refused.hint == "it was taken from HF_TOKEN in your environment; get a new one at https://page"
    assert unknown.outcome is Outcome.UNKNOWN


def test_findings_from_a_box_that_spells_badly_are_unknown() -> None:
    assert verdict_of([{"outcome": "splendid"}, {}, "x", None]).outcome is Outcome.UNKNOWN
    for odd in (None, "passed", {"outcome": "passed"}, []):
        assert verdict_of(odd).outcome is Outcome.UNKNOWN
