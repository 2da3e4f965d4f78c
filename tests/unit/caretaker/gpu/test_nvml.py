"""The driver's library as it answers: a compiled stand-in of two ages, and a real H200's words. Runs under PyPy too."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from leasehold.caretaker.gpu.clock_reasons import reasons_of
from leasehold.caretaker.gpu.nvml import CannotAsk, Nvml
from tests.support.fake_nvml import FakeNvml, missing_compiler

needs_compiler = pytest.mark.skipif(missing_compiler() is not None, reason=str(missing_compiler()))
REAL = json.loads((Path(__file__).parents[1] / "data" / "h200.json").read_text())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    return FakeNvml(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library: FakeNvml) -> FakeNvml:
    library.show(library.card())
    return library


def ask(driver: FakeNvml) -> List[Dict[str, Any]]:
    nvml = Nvml(str(driver.path))
    try:
        return nvml.cards()
    finally:
        nvml.close()


@needs_compiler
def test_every_figure_of_a_new_driver_is_read(driver: FakeNvml) -> None:
    driver.show(driver.card(pid=os.getpid(), ecc=2, failed=1, reasons=0x48))
    (card,) = ask(driver)
    assert card == {
        "index": 0,
        "name": "NVIDIA Fake",
        "bus": "0000:40:00",
        "util_percent": 97,
        "memory_used_bytes": 20000 << 20,
        "memory_total_bytes": 143771 << 20,
        "sm_mhz": 1500,
        "sm_mhz_max": 1980,
        "power_w": 687.1,
        "temperature_c": 54,
        "reasons": ["hw_slowdown", "hw_thermal_slowdown"],
        "ecc_uncorrected": 2,
        "ecc_corrected": 0,
        "processes": [{"pid": os.getpid(), "bytes": 1 << 30}],
        "rows_remapped": 1,
        "rows_pending": False,
        "rows_failed": True,
    }


@needs_compiler
def test_an_old_driver_is_asked_by_its_old_names_and_gaps_are_absent(tmp_path: Path) -> None:
    driver = FakeNvml(tmp_path, old=True)
    driver.show(driver.card(pid=77, reasons=1))
    (card,) = ask(driver)
    assert card["memory_used_bytes"] == 20600 << 20  # an old one counts its own reserve as used
    assert card["reasons"] == ["idle"]
    assert card["processes"] == [{"pid": 77, "bytes": None}]
    assert "ecc_uncorrected" not in card and "rows_failed" not in card and "bus" not in card


@needs_compiler
def test_several_cards_keep_their_numbers_and_a_lost_one_says_so(driver: FakeNvml) -> None:
    driver.show(driver.card(util=1), driver.card(code=15), driver.card(util=3))
    first, lost, third = ask(driver)
    assert (first["util_percent"], third["util_percent"]) == (1, 3)
    assert lost == {"index": 1, "lost": True, "problem": "the NVIDIA driver reports: the card is lost"}


@needs_compiler
def test_a_card_that_supports_nothing_is_still_listed(driver: FakeNvml) -> None:
    driver.show(driver.card(code=3))
    assert ask(driver) == [{"index": 0}]


@needs_compiler
def test_a_driver_that_does_not_start_says_why(driver: FakeNvml) -> None:
    driver.break_down()
    with pytest.raises(CannotAsk, match="unknown error"):
        Nvml(str(driver.path))


def test_without_a_library_the_reason_names_it(tmp_path: Path) -> None:
    with pytest.raises(CannotAsk, match="no-such-library"):
        Nvml(str(tmp_path / "no-such-library.so"))


def test_reasons_are_named_by_their_bits() -> None:
    assert reasons_of(0) == []
    assert reasons_of(0x4 | 0x80) == ["sw_power_cap", "hw_power_brake"]


def test_a_real_h200_answered_in_these_words() -> None:
    rest, load = REAL["at_rest"], REAL["under_load"]
    assert rest["reasons"] == ["idle"] and rest["util_percent"] == 0
    assert load["util_percent"] == 100 and load["power_w"] > 600 and len(load["processes"]) == 2
    assert load["reasons"] == ["sw_power_cap"]  # held by its power limit, which is no alarm
