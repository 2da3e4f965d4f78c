"""The boot line survives every login shell, and every root folder survives the boot line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.errors import BoxError, LinkError
from leasehold.transport import parcel
from leasehold.transport.process import ProcessLink
from leasehold.transport.wire import Wire, ask_status
from tests.conftest import ODD_NAMES

SHELLS = ["sh", "bash", "dash", "zsh", "fish", "tcsh", "mksh", "busybox sh"]
EVERYTHING = ' it\'s a "root"\nwith `all` $HOME \\n %s !1 ~ * ?[x] 训练;&|<>(){} '


class ShellTransport:
    """This machine behind a login shell, as sshd starts it: SHELL -c COMMAND."""

    def __init__(self, shell: list[str], home: Path, path: str = "") -> None:
        self.name = "local:" + shell[0]
        self._shell = shell
        self._env = {"PATH": path or os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"}

    def open(self, command: str) -> ProcessLink:
        return ProcessLink([*self._shell, "-c", command], self._env, self._explain)

    def _explain(self, code: int, said: str) -> LinkError:
        return LinkError("link.lost", f"exit {code}: {said}", seen=said)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Each login shell a box may have."""
    words = str(request.param).split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here (Debian: apt-get install {words[0]})")
    return words


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def put_status(root: Path, run: str, value: dict[str, object]) -> None:
    folder = root / "active" / run
    folder.mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")


TRICKY = {"reason": "line\nbreak\ttab \\n \\\\ 'q' \"q\" %s $HOME `id` ! \u2028 \x85 训练"}


def test_the_line_holds_nothing_that_a_shell_could_read():
    line = parcel.boot_command()
    assert line.startswith("exec sh -c '") and line.endswith("'")
    assert not set(line[len("exec sh -c '") : -1]) & set("'!\\\n")
    assert len(line) < 4096, "some gateways cut longer command lines"


def test_every_root_survives_every_shell(shell, home, tmp_path):
    for name in [*ODD_NAMES.values(), EVERYTHING, "trailing newline\n", "\n"]:
        root = tmp_path / "roots" / name
        put_status(root, "toy-1", {**TRICKY, "run": name})
        ((age, text),) = ask_status(ShellTransport(shell, home), str(root))
        assert json.loads(text) == {**TRICKY, "run": name}
        assert 0 <= age < 600


def test_a_conversation_begins_through_every_shell(shell, home, tmp_path):
    root = tmp_path / EVERYTHING / "root"
    for _ in range(2):  # first the parcel travels, then it is there
        with Wire(ShellTransport(shell, home), str(root), sys.executable) as wire:
            assert wire.ask("probe")["root"] == str(root)
    (zipped,) = (root / "caretaker").iterdir()
    assert zipped.name == parcel.build().sha256


@pytest.mark.parametrize("given, where", [("", ".leasehold"), ("~/deep/er", "deep/er"), ("~/~", "~")])
def test_a_root_may_be_relative_to_the_home_folder_there(shell, home, given, where):
    put_status(home / where, "toy-1", {"run": "toy-1"})
    assert len(ask_status(ShellTransport(shell, home), given)) == 1


def test_banner_noise_before_the_answer_is_skipped(home, tmp_path):
    noisy = tmp_path / "noisy"
    noisy.write_text('#!/bin/sh\necho "Welcome! LEASEHOLD/1 not you"; printf "no newline "; exec /bin/sh "$@"\n')
    noisy.chmod(0o755)
    put_status(tmp_path / "root", "toy-1", {"run": "toy-1"})
    assert len(ask_status(ShellTransport([str(noisy)], home), str(tmp_path / "root"))) == 1


def test_a_box_without_runs_answers_with_none(home, tmp_path):
    assert ask_status(ShellTransport(["/bin/sh"], home), str(tmp_path / "none")) == []


def test_status_starts_no_python(home, tmp_path):
    """A status must be cheap, and work where Python is broken."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\ntouch {tools}/was-started\nexec {sys.executable} "$@"\n')
    (tools / "python3").chmod(0o755)
    put_status(tmp_path / "root", "toy-1", {"run": "toy-1"})
    link = ShellTransport(["/bin/sh"], home, path=f"{tools}:{os.environ['PATH']}")
    assert len(ask_status(link, str(tmp_path / "root"))) == 1
    assert not (tools / "was-started").exists()
    Wire(link, str(tmp_path / "root")).close()
    assert (tools / "was-started").exists()


def test_a_root_that_cannot_be_made_is_refused_by_name(home, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BoxError) as caught:
        Wire(ShellTransport(["/bin/sh"], home), str(tmp_path / "file" / "root"))
    assert caught.value.code == "box.no_root"
    assert "--root" in caught.value.hint


def test_a_login_that_ends_at_once_is_a_lost_link(home):
    with pytest.raises(LinkError):
        Wire(ShellTransport(["/bin/false"], home), "/x")


def test_a_status_answer_that_is_cut_is_a_lost_link(home, tmp_path):
    cutting = tmp_path / "cutting"
    cutting.write_text('#!/bin/sh\nread -r nonce; echo "LEASEHOLD/1 $nonce status"; echo "5 {"; exit 0\n')
    cutting.chmod(0o755)
    with pytest.raises(LinkError):
        ask_status(ShellTransport([str(cutting)], home), "/x")


@pytest.mark.parametrize("age", ["²", "9" * 5000, "x", "", "--5", "5.5"])
def test_an_age_that_is_no_number_is_left_out(home, tmp_path, age):
    lying = tmp_path / "lying"
    lying.write_text(
        f'#!/bin/sh\nread -r nonce; echo "LEASEHOLD/1 $nonce status"; echo "{age} x"; echo "7 y"; echo end\n'
    )
    lying.chmod(0o755)
    assert ask_status(ShellTransport([str(lying)], home), "/x") == [(7, "y")]


def test_equal_sources_make_equal_parcels():
    code = "from leasehold.transport import parcel; print(parcel.build().sha256)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7", "TZ": "Asia/Shanghai"}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == parcel.build().sha256
