"""What first contact makes of a door, tried on this machine's own shell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.errors import LinkError
from leasehold.model.lease.box import Flavour
from leasehold.model.run.verdict import Outcome
from leasehold.transport.flavour import DoorReading, Patience, detect
from leasehold.transport.process import LocalTransport, ProcessLink

QUICK = Patience(hello_s=2, quiet_s=0.3, answer_s=5, terminal_s=1)


class Door(LocalTransport):
    """This machine behind a door that does something of its own to a command."""

    def __init__(self, before: str = "", hidden: str = "") -> None:
        self._before = before
        self._hidden = hidden

    def open(self, command: str) -> ProcessLink:
        """Start it; what is hidden is not found by `command -v`."""
        return super().open(self._before + (command.replace(self._hidden, "false") if self._hidden else command))


def said(reading: DoorReading, label: str) -> tuple[Outcome, str]:
    found = next(found for found in reading.findings if found.what.startswith(label + ":"))
    return found.outcome, found.what


def test_this_machine_is_read() -> None:
    reading = detect(LocalTransport())
    assert reading.flavour is Flavour.LOCAL
    assert reading.system.startswith(os.uname().sysname)
    assert os.access(reading.python, os.X_OK)
    assert reading.round_trip_s > 0 and reading.connect_s > 0
    assert {found.outcome for found in reading.findings} == {Outcome.PASSED}


def test_a_box_without_python_is_refused_with_what_to_do() -> None:
    reading = detect(Door(hidden="command -v"))
    assert reading.python == ""
    assert said(reading, "python") == (Outcome.REFUSED, "python: no Python 3.8 or newer was found")


@pytest.mark.parametrize("noise", ["", "x", "\n\n", "one\ntwo\nno newline", "\033[1mbold\033[0m", "\x00\x07\ufffd"])
def test_noise_before_the_answer_is_skipped_and_shown_harmless(noise: str) -> None:
    octal = "".join(f"\\0{byte:03o}" for byte in noise.encode())
    reading = detect(Door(before=f"printf %b '{octal}'; "))
    assert reading.python
    assert reading.noise.isprintable()
    assert bool(reading.noise) == bool(noise.strip().strip("\x00\x07"))


def test_signs_of_a_platform_are_looked_for_in_the_same_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENTED_BOX", "x")
    there, gone = tmp_path / "it's here", tmp_path / "gone"
    there.touch()
    asked = [("env", "RENTED_BOX"), ("file", str(there)), ("file", str(gone)), ("mount", "/"), ("mount", str(tmp_path))]
    reading = detect(LocalTransport(), signs=asked)
    assert [reading.signs[one] for one in asked] == ["yes", "yes", "no", "yes", "no"]
    below = ("file", f"{gone}/below")
    assert detect(LocalTransport(), signs=[below]).signs == {below: "unknown"}, "its folder cannot be searched"


def test_a_root_is_probed_only_when_asked_for(tmp_path: object) -> None:
    assert detect(LocalTransport()).root_state == ""
    reading = detect(LocalTransport(), f"{tmp_path}/new")
    assert (reading.root_state, reading.root) == ("good", f"{tmp_path}/new")
    assert os.listdir(f"{tmp_path}/new") == []


@pytest.mark.parametrize(
    "door", ["exit 1; ", "cat; exit 0; ", "yes; "], ids=["ends at once", "repeats what is typed", "never stops talking"]
)
def test_a_door_that_does_not_run_commands_raises_and_never_hangs(door: str) -> None:
    with pytest.raises(LinkError):
        detect(Door(before=door), patience=QUICK)
