"""A sick card refuses in the audit; what could not be seen of it is unknown, never healthy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.front import Front, fake_cards, front, program

_REFUSED = 3
_CARD = "NVIDIA A100-SXM4-40GB, 40960"
_XID = "[ 12.3] NVRM: Xid (PCI:0000:%s:00): %d, pid=1234, name=python"


@pytest.fixture
def me(tmp_path: Path):
    with front(tmp_path) as person:
        person.write(
            "train.py", "import json, os\njson.dump({}, open(os.environ['LEASE_OUT'] + '/result.json', 'w'))\n"
        )
        person.job(resources={"gpu": {"count": 1}})
        yield person


def reason(name: str) -> dict[str, str]:
    return {f"clocks_throttle_reasons.{name}": "Active"}


_FAULTS = {
    "2 uncorrectable memory errors since boot": {"ecc.errors.uncorrected.volatile.total": "2"},
    "a broken memory row could not be replaced": {"remapped_rows.failure": "Yes"},
    "the driver asks for recovery: Reset": {"gpu_recovery_action": "Reset"},
    "the hardware slows it down because it is hot": reason("hw_thermal_slowdown"),
    "the driver slows it down because it is hot": reason("sw_thermal_slowdown"),
    "its power supply slows it down": reason("hw_power_brake_slowdown"),
    "the hardware slows it down": reason("hw_slowdown"),
}


def test_each_sick_card_refuses_the_launch(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {"count": len(_FAULTS)}})
    done = me.lease("run", "--detach", **fake_cards(tmp_path, *[_CARD] * len(_FAULTS), changes=[*_FAULTS.values()]))
    assert done.code == _REFUSED, done.out + done.said
    for number, said in enumerate(_FAULTS):
        assert f"GPU {number}: {said}" in done.said
    assert not me.runs_on_box()


def test_fatal_xids_refuse_and_can_be_passed_by_with_a_reason(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {"count": 3}})
    log = "\n".join(_XID % pair for pair in (("3b", 48), ("3c", 79), ("3d", 95)))
    cards = fake_cards(tmp_path, *[_CARD] * 3, kernel=log)
    done = me.lease("check", "audit", **cards)
    assert done.code == _REFUSED
    for number, (bus, code) in enumerate((("3b", 48), ("3c", 79), ("3d", 95))):
        assert f"NO  GPU {number}: Xid {code} on 0000:{bus}:00: " in done.said
    done = me.lease("run", "--detach", "--skip-gate", "audit", "--because", "the provider reset it", **cards)
    assert done.code == 0, done.said
    (judged,) = [event for event in me.events("gate_judged") if event["gate"] == "audit" and event.get("skipped")]
    assert judged["because"] == "the provider reset it"


def test_a_fatal_xid_where_no_card_is_listed_refuses(me: Front, tmp_path: Path) -> None:
    done = me.lease("check", "audit", **fake_cards(tmp_path, _CARD, kernel=_XID % ("5e", 79)))
    assert done.code == _REFUSED
    assert "Xid 79 on 0000:5e:00: the card has fallen off the bus; the driver lists no card there" in done.said


def test_a_sick_card_that_the_job_does_not_use_is_said_and_passes(me: Front, tmp_path: Path) -> None:
    me.job(resources={"gpu": {"count": 1}}, env={"CUDA_VISIBLE_DEVICES": "0"})
    done = me.lease("check", "audit", **fake_cards(tmp_path, _CARD, _CARD, kernel=_XID % ("3c", 79)))
    assert done.code == 0, done.said
    assert "GPU 1, which the job does not use: Xid 79 on 0000:3c:00" in done.said


def test_another_xid_and_the_usual_power_cap_do_not_refuse(me: Front, tmp_path: Path) -> None:
    cards = fake_cards(tmp_path, _CARD, changes=[reason("sw_power_cap")], kernel=_XID % ("3b", 31))
    done = me.lease("check", "audit", **cards)
    assert done.code == 0, done.said
    assert "audit: passed" in done.out
    assert "Xid 31 on 0000:3b:00" in done.said


def test_a_healthy_card_passes_with_what_was_read(me: Front, tmp_path: Path) -> None:
    done = me.lease("check", "audit", **fake_cards(tmp_path, _CARD))
    assert done.code == 0
    assert "ok  GPU 0: no uncorrectable memory error; 31 °C, 300 of 1980 MHz, 60.12 of 400 W, 0 % busy" in done.said
    assert "ok  no Xid in the kernel log since boot" in done.said
    assert "audit: passed" in done.out


def test_what_cannot_be_seen_is_unknown_and_said(me: Front, tmp_path: Path) -> None:
    slowed = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    changes = [
        {"ecc.mode.current": "[N/A]", "ecc.errors.uncorrected.volatile.total": "[N/A]"},
        {f"clocks_throttle_reasons.{name}": "[N/A]" for name in slowed},
        {"temperature.gpu": "[N/A]"},
    ]
    unseen = [
        "GPU 0: it counts no memory errors (no ECC): they stay unseen",
        "GPU 1: the driver does not report whether it is slowed down",
        "GPU 2: it does not report its temperature",
        "the kernel log cannot be read",
    ]
    me.job(resources={"gpu": {"count": 3}})
    cards = fake_cards(tmp_path, *[_CARD] * 3, changes=changes, kernel=None)
    done = me.lease("check", "audit", **cards)
    assert done.code == 0
    assert "audit: unknown" in done.out
    assert all(f"?   {said}" in done.said for said in unseen), done.said
    done = me.lease("run", "--detach", **cards)
    assert done.code == 0, done.said
    line = next(line for line in done.said.splitlines() if line.startswith("audit: unknown: "))
    assert all(said in line for said in unseen)


def test_a_tool_that_does_not_answer_about_health_is_unknown(me: Front, tmp_path: Path) -> None:
    old = f'case "$*" in *ecc*) echo nonsense ;; *) echo "0, {_CARD}, 3, 550.54, 0, 31" ;; esac\n'
    cards = fake_cards(tmp_path, _CARD)
    program(tmp_path, "nvidia-smi", old)
    done = me.lease("check", "audit", **cards)
    assert done.code == 0, done.said
    assert "?   GPU: whether it is healthy could not be read: nvidia-smi answered something else" in done.said


def test_a_job_without_a_card_is_not_refused_for_a_sick_one_but_told(me: Front, tmp_path: Path) -> None:
    me.job()
    done = me.lease("check", "audit", **fake_cards(tmp_path, _CARD, kernel=_XID % ("3b", 79)))
    assert done.code == 0
    assert "GPU 0, which the job does not use: Xid 79 on 0000:3b:00" in done.said
