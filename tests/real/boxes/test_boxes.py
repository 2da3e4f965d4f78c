"""The box book against a real sshd: pasted, met once, found by name, tried."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import BoxError, LinkError, UserError
from leasehold.ledger import books, box_book
from leasehold.lifecycle.box import book, book_rows
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import find_box
from leasehold.lifecycle.records.orders import BoxOrder
from leasehold.model.run.note import Note, silent
from leasehold.model.run.verdict import Outcome
from tests.support.box_book import add_box, finding, key_of, pasted, try_box
from tests.support.front import NO_SMOKE
from tests.support.lives import LEASE
from tests.support.sshd import HOST, SshBox

PROXY_FIX = "use the direct TCP address that the console shows, not the proxy"
MENU = """printf 'Welcome to RelayCloud\\n 1) open a terminal\\n 2) delete everything\\nchoose: '
while read -r choice; do echo "$choice" >> "$HOME/chosen"; echo "unknown: $choice"; done"""
NEEDS_A_TERMINAL = """[ -t 0 ] || { echo "Error: Your SSH client doesn't support PTY"; exit 1; }
printf 'RelayCloud shell of pod 1a2b3c\\n$ '; read -r never"""
JOB = 'name: tiny\nrun: echo "{}" > $LEASE_OUT/m.json\nartifacts: {m.json: json}\n'


MakeBox = Callable[..., SshBox]


@pytest.fixture
def lease(home: Home) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in the home; LEASEHOLD_SSH is unset, so that only what was pasted leads to the box."""

    def run(*words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("LEASE")}
        environ |= {"LEASEHOLD_HOME": str(home.path), "NO_COLOR": "1", **more}
        done = subprocess.run([LEASE, *words], env=environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


# ---------------------------------------------------------------- the whole way, as a person goes it


def test_a_pasted_box_is_added_listed_shown_tested_run_on_and_removed(
    new_ssh_box: MakeBox, lease: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, home: Home
) -> None:
    sockets = tempfile.mkdtemp(prefix="lh-")  # short: a socket's path has room for 100 characters
    try:
        box = new_ssh_box(environment={"TMUX_TMPDIR": sockets})
        added = lease("box", "add", "gpu1", pasted(box), "--price", "1.98usd/hour")
        assert added.stdout == "gpu1\n"
        assert f"host key {key_of(box)} (ED25519) pinned" in added.stderr
        assert "a forgotten box bills around the clock" in added.stderr
        assert "not taken from the command: -L 8080:localhost:8080" in added.stderr

        [row] = json.loads(lease("box", "list", "--json").stdout)["boxes"]
        assert (row["name"], row["price"], row["flavour"], row["leases"]) == ("gpu1", "1.98USD/h", "full", [])
        shown = json.loads(lease("box", "show", "gpu1", "--json").stdout)
        assert shown["address"] == f"ssh:{box.user}@127.0.0.1:{box.port}"
        assert shown["identity"] == str(box.folder / "client_key")
        tested = json.loads(lease("box", "test", "gpu1", "--json").stdout)
        assert {found["outcome"] for found in tested["findings"]} == {"passed"}

        job = tmp_path / "project" / "lease.yaml"
        job.parent.mkdir()
        job.write_text(JOB)
        ran = json.loads(lease("run", str(job), "--on", "gpu1", "--json", *NO_SMOKE).stdout)
        assert (ran["state"], ran["lease"]) == ("finished", "gpu1-1")
        assert (Path(ran["export"]) / "cells" / "main" / "m.json").read_text() == "{}\n"
        assert books.find_lease(home.ledger, "gpu1-1").price == "1.98USD/h"

        kept = lease("box", "remove", "gpu1", code=3)
        assert "gpu1-1 would stop counting" in kept.stderr
        assert "USD so far at 1.98USD/h" in kept.stderr
        home.ledger.append("lease_closed", lease="gpu1-1")
        lease("box", "remove", "gpu1")
        assert json.loads(lease("box", "list", "--json").stdout) == {"boxes": []}
        assert "did you mean" not in lease("run", str(job), "--on", "gpu1", code=2).stderr
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


def test_every_command_answers_in_json(ssh_box: SshBox, lease: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    added = json.loads(lease("box", "add", "gpu1", "--ssh", pasted(ssh_box), "--json").stdout)
    assert added["box"]["name"] == "gpu1"
    assert {"host_pinned", "finding", "danger"} <= {note["kind"] for note in added["notes"]}
    again = json.loads(lease("box", "add", "gpu1", pasted(ssh_box), "--json", code=2).stdout)
    assert again["error"]["code"] == "box.exists"
    removed = json.loads(lease("box", "remove", "gpu1", "--json").stdout)
    assert removed["removed"]["name"] == "gpu1"


# ---------------------------------------------------------------- first contact


def test_first_contact_reads_the_door_and_writes_nothing_on_the_box(ssh_box: SshBox, home: Home) -> None:
    entry = add_box(home, ssh_box)
    assert (entry.flavour, entry.fingerprint) == ("full", f"{key_of(ssh_box)} (ED25519)")
    assert entry.python.startswith("/")
    assert ssh_box.handshakes() == 2  # a command, and sftp
    assert list(ssh_box.home.iterdir()) == []


def test_a_key_that_the_user_already_trusts_is_pinned_and_shown_too(
    ssh_box: SshBox, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_SSH", f"ssh -F {ssh_box.config}")
    said: list[Note] = []
    entry = add_box(home, ssh_box, said=said, pasted=HOST)
    assert entry.fingerprint == f"{key_of(ssh_box)} (ED25519)"
    assert "is in your own known_hosts; pinned" in next(note.text for note in said if note.kind == "host_pinned")
    ssh_box.change_host_key()
    ssh_box._trust_host_key()  # the user accepts the new one by hand; our pin does not
    with pytest.raises(LinkError) as raised:
        find_box(home, "gpu1").connect()
    assert raised.value.code == "link.host_key_changed"


def test_a_key_the_user_knows_otherwise_is_refused_at_first_contact(
    ssh_box: SshBox, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_SSH", f"ssh -F {ssh_box.config}")
    ssh_box.change_host_key()
    with pytest.raises(LinkError) as raised:
        add_box(home, ssh_box, pasted=HOST)
    assert raised.value.code == "link.host_key_changed"
    assert box_book.entries(home.ledger) == []


def test_no_contact_writes_it_down_and_the_test_meets_it(ssh_box: SshBox, home: Home) -> None:
    assert add_box(home, ssh_box, contact=False).flavour == "unknown"
    assert ssh_box.handshakes() == 0
    verdict = try_box(home)
    assert verdict.passed
    assert "met and pinned just now" in finding(verdict, "host key")[1]
    entry = book_rows.find(home, "gpu1")
    assert (entry.flavour, entry.fingerprint) == ("full", f"{key_of(ssh_box)} (ED25519)")


def test_a_box_that_cannot_be_reached_is_not_written_down(ssh_box: SshBox, home: Home) -> None:
    ssh_box.stop()
    with pytest.raises(LinkError) as raised:
        add_box(home, ssh_box)
    assert raised.value.code == "link.refused"
    assert "--no-contact" in raised.value.hint
    assert box_book.entries(home.ledger) == []


def test_a_key_that_is_refused_says_so(ssh_box: SshBox, home: Home, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "stranger")], check=True)
    with pytest.raises(LinkError) as raised:
        add_box(home, ssh_box, pasted=f"ssh -p {ssh_box.port} {ssh_box.user}@127.0.0.1 -i {tmp_path / 'stranger'}")
    assert raised.value.code == "link.auth_failed"


def test_a_key_file_that_is_not_here_is_left_out_and_said(ssh_box: SshBox, home: Home) -> None:
    said: list[Note] = []
    entry = add_box(
        home, ssh_box, said=said, contact=False, pasted=f"ssh -p {ssh_box.port} u@127.0.0.1 -i ~/.ssh/no-such"
    )
    assert entry.identity == ""
    assert any("~/.ssh/no-such is not here" in note.text for note in said)


@pytest.mark.parametrize("name", ["local", "ssh:x", "-x", "a b", "", "generic-ssh", "x" * 101, "a/b"])
def test_a_name_that_means_something_else_is_refused(home: Home, name: str) -> None:
    with pytest.raises(UserError) as raised:
        book.add(home, BoxOrder(name, "root@h", contact=False), silent)
    assert raised.value.code == "box.bad_name"


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ({"platform": "nowhere"}, "platform.unknown"),
        ({"price": "cheap"}, "box.bad_price"),
        ({"root": "relative"}, "box.bad_root"),
        ({"pasted": ""}, "box.no_address"),
        ({"pasted": "ssh -oProxyCommand=evil h"}, "box.paste_refused"),
        ({"fingerprint": "SHA256:x", "contact": False}, "box.unmet_key"),
    ],
)
def test_a_wrong_word_refuses_before_anything_is_done(home: Home, order: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as raised:
        book.add(home, BoxOrder(**{"name": "gpu1", "pasted": "root@h", **order}), silent)
    assert raised.value.code == code
    assert box_book.entries(home.ledger) == []


# ---------------------------------------------------------------- doors


def test_a_box_without_sftp_works_and_says_so(new_ssh_box: MakeBox, home: Home) -> None:
    assert add_box(home, new_ssh_box(sftp=False)).flavour == "no-sftp"
    verdict = try_box(home)
    assert verdict.passed
    assert "subsystem request failed" in finding(verdict, "sftp")[1]


def test_a_login_that_prints_a_banner_is_heard_through(new_ssh_box: MakeBox, home: Home) -> None:
    if not pwd.getpwuid(os.geteuid()).pw_shell.endswith("bash"):
        pytest.skip("your login shell is not bash, which alone reads ~/.bashrc for a command")
    box = new_ssh_box(sftp=False)
    (box.home / ".bashrc").write_text("printf '\\033[31m*** Willkommen ***\\033[0m\\nno newline: '\n")
    entry = add_box(home, box)
    assert entry.flavour == "no-sftp"
    outcome, what = finding(try_box(home), "banner")
    assert (outcome, what) == ("passed", "banner: the login prints '*** Willkommen ***' before our answer; skipped")


@pytest.mark.parametrize(
    ("door", "says"),
    [
        (MENU, "Welcome to RelayCloud"),
        (NEEDS_A_TERMINAL, "Error: Your SSH client doesn't support PTY"),
        ("echo this account has been parked >&2; exit 3", "this account has been parked"),
    ],
    ids=["menu", "terminal wanted", "a word on stderr"],
)
def test_a_relay_that_only_carries_a_terminal_is_refused_with_the_way_out(
    new_ssh_box: MakeBox, home: Home, door: str, says: str
) -> None:
    box = new_ssh_box(door=door)
    with pytest.raises(BoxError) as raised:
        add_box(home, box)
    assert raised.value.code == "box.shell_only"
    assert says in raised.value.seen
    assert PROXY_FIX in raised.value.hint
    assert box_book.entries(home.ledger) == []
    assert not (box.home / "chosen").exists(), "something was typed at the menu"


def test_a_relay_in_the_book_fails_its_test_and_is_named_there(new_ssh_box: MakeBox, home: Home) -> None:
    if os.geteuid():
        pytest.skip("an sshd that is not root's gives no terminal")
    add_box(home, new_ssh_box(door=NEEDS_A_TERMINAL), contact=False)
    verdict = try_box(home)
    assert verdict.outcome is Outcome.REFUSED
    assert finding(verdict, "commands")[0] == "refused"
    assert "RelayCloud shell" in finding(verdict, "terminal")[1]
    assert finding(verdict, "room") == ("unknown", "room: not tried, nothing can be started there")
    assert book_rows.find(home, "gpu1").flavour == "shell-only"


def test_a_door_that_repeats_our_command_is_not_taken_for_a_shell(new_ssh_box: MakeBox, home: Home) -> None:
    box = new_ssh_box(door='echo "no such command: $SSH_ORIGINAL_COMMAND"; exit 1')
    with pytest.raises(BoxError) as raised:
        add_box(home, box)
    assert raised.value.code == "box.shell_only"


# ---------------------------------------------------------------- the test's other findings


def test_a_root_that_cannot_be_written_is_refused(ssh_box: SshBox, home: Home) -> None:
    add_box(home, ssh_box, root="/proc/no/such")
    verdict = try_box(home)
    assert finding(verdict, "folder") == ("refused", "folder: /proc/no/such cannot be made")
    assert finding(verdict, "caretaker")[0] == "refused"
    assert finding(verdict, "room")[0] == "unknown"


def test_the_probe_leaves_nothing_in_a_root_of_any_name(
    ssh_box: SshBox, home: Home, odd_name: str, tmp_path: Path
) -> None:
    add_box(home, ssh_box, root=str(tmp_path / "roots" / odd_name))
    assert finding(try_box(home), "folder")[0] == "passed"
    assert [path.name for path in (tmp_path / "roots").iterdir()] == [odd_name]
    assert not list((tmp_path / "roots" / odd_name).glob(".leasehold-probe*"))


def test_a_box_that_is_gone_is_unknown_and_stays_in_the_book(ssh_box: SshBox, home: Home) -> None:
    entry = add_box(home, ssh_box)
    ssh_box.stop()
    verdict = try_box(home)
    assert verdict.outcome is Outcome.UNKNOWN
    assert finding(verdict, "reach")[0] == "unknown"
    assert book_rows.find(home, "gpu1") == entry


def test_a_wrong_clock_is_found(ssh_box: SshBox, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add_box(home, ssh_box)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    outcome, what = finding(try_box(home), "clock")
    assert outcome == "refused"
    ahead = re.fullmatch(r"clock: the box is ([\d.]+) s ahead of this machine", what)
    assert ahead and abs(float(ahead[1]) - 3600) < 60, what  # a slow answer makes it a little less


def test_this_machine_can_have_a_name(home: Home) -> None:
    entry = book.add(home, BoxOrder("here", "local"), silent)
    assert (entry.platform, entry.flavour) == ("local", "local")
    assert try_box(home, "here").passed
    assert find_box(home, "here").root == entry.root


def test_a_second_lease_on_the_same_machine_is_warned_of(ssh_box: SshBox, home: Home) -> None:
    address = f"ssh:{ssh_box.user}@127.0.0.1:{ssh_box.port}"
    books.open_lease(home.ledger, address, "generic-ssh", "", "")
    said: list[Note] = []
    add_box(home, ssh_box, said=said)
    assert any(note.kind == "warning" and "counts by itself" in note.text for note in said)
