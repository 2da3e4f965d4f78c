"""The first words on a wire: one handshake, the parcel once, whatever the login prints."""

from __future__ import annotations

import io
import shlex
import threading
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from leasehold.errors import BoxError, LinkError
from leasehold.transport import parcel
from leasehold.transport.contract import Link, Transport
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.wire import Wire
from tests.contract.doors import Door
from tests.support.sshd import SshBox


class Counted:
    """A transport that counts what home sends."""

    def __init__(self, inner: Transport) -> None:
        self.name = inner.name
        self.sent_bytes = 0
        self._inner = inner

    def open(self, command: str) -> Link:
        link = self._inner.open(command)
        write = link.writer.write

        def counted(data: bytes) -> int:
            self.sent_bytes += len(data)
            return write(data)

        link.writer.write = counted  # type: ignore[method-assign,assignment]
        return link


class Prefixed:
    """A transport whose login runs something before our command, as rc files and banners do."""

    def __init__(self, inner: Transport, prefix: str) -> None:
        self.name = inner.name
        self._inner = inner
        self._prefix = prefix

    def open(self, command: str) -> Link:
        return self._inner.open(self._prefix + command)


def other_parcel() -> parcel.Parcel:
    """Build what a newer leasehold would ship."""
    ours = parcel.build()
    buffer = io.BytesIO(ours.data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(zipfile.ZipInfo("leasehold/kit/newer.py"), "NEWER = True\n")
    return parcel.Parcel(sha256(buffer.getvalue()).hexdigest(), buffer.getvalue())


def test_an_empty_box_takes_the_parcel_and_answers(door: Door) -> None:
    assert door.open().ask("probe")["root"] == door.place
    assert list(door.parcels()) == [parcel.build().sha256]


def test_the_parcel_travels_once(door: Door) -> None:
    first, second = Counted(door.transport), Counted(door.transport)
    door.open(first).close()
    met = door.parcels()
    assert door.open(second).ask("probe")["system"]
    assert first.sent_bytes > len(parcel.build().data)
    assert second.sent_bytes < 1000
    assert door.parcels() == met


@pytest.mark.parametrize("attempt", range(4))
def test_homes_that_meet_an_empty_box_at_once_are_all_served(door: Door, attempt: int) -> None:
    answers: list[object] = []
    homes = [threading.Thread(target=lambda: answers.append(answer_of(door))) for _ in range(4)]
    for home in homes:
        home.start()
    for home in homes:
        home.join()
    assert answers == [door.place] * 4
    assert list(door.parcels()) == [parcel.build().sha256]
    assert sorted(path.name for path in door.root.iterdir()) == ["active", "box-id", "caretaker", "python"]


def answer_of(door: Door) -> object:
    try:
        return door.open().ask("probe")["root"]
    except (BoxError, LinkError) as error:
        return error


def test_a_newer_parcel_lies_beside_the_one_in_use_and_leaves_it_alone(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = door.open()
    before = door.parcels()
    newer = other_parcel()
    monkeypatch.setattr(parcel, "build", lambda: newer)
    new = door.open()
    assert new.ask("probe")["root"] == old.ask("probe")["root"] == door.place
    after = door.parcels()
    assert sorted(after) == sorted([*before, newer.sha256])
    assert {name: after[name] for name in before} == before
    assert (door.root / "caretaker" / newer.sha256 / "leasehold" / "kit" / "newer.py").exists()


def test_a_parcel_that_was_damaged_on_the_way_is_not_kept(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = parcel.build()
    wrong = ours.data[:-1] + bytes([ours.data[-1] ^ 1])
    monkeypatch.setattr(parcel, "build", lambda: parcel.Parcel(ours.sha256, wrong))
    with pytest.raises(LinkError, match="damaged"):
        door.open()
    assert list((door.root / "caretaker").iterdir()) == []
    monkeypatch.undo()


def test_an_unpacking_that_was_killed_midway_does_not_stand_in_the_way(door: Door) -> None:
    leftover = door.root / "caretaker" / f"{parcel.build().sha256}.partial-1"
    leftover.mkdir(parents=True)
    (leftover / "half").touch()
    assert door.open().ask("probe")["root"] == door.place


NOISE = {
    "banner": "echo Welcome to box 7; ",
    "no-newline": "printf %s 'last login: never '; ",
    "a-lookalike": "echo LEASEHOLD/1 0123456789abcdef ready; ",
    "escapes-and-bytes": r"printf '\033[31mred\033[0m\377\000\n'; ",
    "on-stderr": "echo oops >&2; ",
    "a-long-motd": "i=0; while [ $i -lt 2000 ]; do echo a line that nobody reads $i; i=$((i+1)); done; ",
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_what_the_login_prints_before_our_answer_is_skipped(door: Door, noise: str) -> None:
    noisy = Prefixed(door.transport, noise)
    for _ in range(2):  # with the parcel, then without
        assert door.open(noisy).ask("probe")["root"] == door.place


def test_a_login_that_never_stops_printing_is_given_up(door: Door) -> None:
    with pytest.raises(LinkError) as caught:
        door.open(Prefixed(door.transport, "yes | head -c 40000000; "))
    assert caught.value.code == "link.noise"


def test_a_real_rc_file_that_prints_is_skipped(
    ssh_box: SshBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ssh_box.home / ".bashrc").write_text("echo a banner nobody asked for\nprintf 'and no newline'\n")
    monkeypatch.setenv("LEASEHOLD_SSH", shlex.join(ssh_box.ssh_command))
    with Wire(SshTransport(SshAddress.parse("box"), tmp_path / "pins"), "") as wire:
        assert wire.ask("probe")["root"] == str(ssh_box.home / ".leasehold")


def test_a_folder_that_cannot_be_made_is_said(door: Door) -> None:
    door.root.parent.mkdir(exist_ok=True)
    door.root.write_text("a file stands here")
    with pytest.raises(BoxError) as caught:
        door.open()
    assert caught.value.code == "box.no_root"
    assert door.place in caught.value.message
