"""A box of the book stays the machine that was met, wherever it moves; anybody else is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasehold.errors import LinkError, Refusal, UserError
from leasehold.ledger import books, box_book
from leasehold.lifecycle.box import book_rows
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.machine.box import find_box
from leasehold.lifecycle.machine.leased_box import box_of
from leasehold.model.run.verdict import Outcome
from leasehold.transport.ssh import host_keys
from tests.support.box_book import add_box, finding, key_of, pasted, try_box
from tests.support.sshd import HOST, SshBox
from tests.support.tcp_proxy import TcpProxy

MakeBox = Callable[..., SshBox]


# ---------------------------------------------------------------- the host key


def test_a_changed_host_key_is_refused_by_name(ssh_box: SshBox, home: Home) -> None:
    add_box(home, ssh_box)
    before = key_of(ssh_box)
    ssh_box.change_host_key()
    with pytest.raises(LinkError) as raised:
        find_box(home, "gpu1").connect()
    assert raised.value.code == "link.host_key_changed"
    assert raised.value.message.startswith("gpu1 (")
    assert key_of(ssh_box) in raised.value.seen
    assert before in raised.value.seen
    assert "lease box add gpu1 --replace --fingerprint" in raised.value.hint
    verdict = try_box(home)
    assert verdict.outcome is Outcome.REFUSED
    assert finding(verdict, "host key")[0] == "refused"
    with pytest.raises(LinkError):
        add_box(home, ssh_box, replace=True)


def test_a_changed_key_is_accepted_only_when_its_fingerprint_is_named(ssh_box: SshBox, home: Home) -> None:
    add_box(home, ssh_box)
    before = key_of(ssh_box)
    ssh_box.change_host_key()
    with pytest.raises(LinkError) as raised:
        add_box(home, ssh_box, replace=True, fingerprint="SHA256:" + "A" * 43)
    assert raised.value.code == "link.host_key_unexpected"
    assert book_rows.find(home, "gpu1").fingerprint.startswith(before)
    pins = home.pins(f"{ssh_box.user}@127.0.0.1:{ssh_box.port}")
    assert host_keys.fingerprint(pins).startswith(before), "the old pin must stand"

    assert add_box(home, ssh_box, replace=True, pasted="", fingerprint=key_of(ssh_box)).fingerprint.startswith(
        key_of(ssh_box)
    )
    assert try_box(home).passed
    evidence = list(pins.parent.glob(f"{pins.name}.was-*"))
    assert [host_keys.fingerprint(path).split()[0] for path in evidence] == [before]


def test_a_first_contact_can_ask_for_one_key(ssh_box: SshBox, home: Home) -> None:
    with pytest.raises(LinkError):
        add_box(home, ssh_box, fingerprint="SHA256:" + "A" * 43)
    assert box_book.entries(home.ledger) == []
    assert add_box(home, ssh_box, fingerprint=key_of(ssh_box)).flavour == "full"


def test_a_pin_removed_by_hand_does_not_make_the_book_forget(ssh_box: SshBox, home: Home) -> None:
    add_box(home, ssh_box)
    before = key_of(ssh_box)
    ssh_box.change_host_key()
    home.pins(f"{ssh_box.user}@127.0.0.1:{ssh_box.port}").unlink()
    outcome, what = finding(try_box(home), "host key")
    assert outcome == "refused"
    assert before in what
    assert key_of(ssh_box) in what
    assert book_rows.find(home, "gpu1").fingerprint.startswith(before)


# ---------------------------------------------------------------- moving


def test_a_port_that_changed_is_added_again_and_the_lease_goes_on(ssh_box: SshBox, home: Home) -> None:
    somewhere = str(ssh_box.home / "somewhere")
    old = add_box(home, ssh_box, price="1USD/h", root=somewhere)
    lease = books.open_lease(home.ledger, "gpu1", "generic-ssh", somewhere, "")
    with TcpProxy(ssh_box.port) as moved:
        with pytest.raises(UserError):
            add_box(home, ssh_box, pasted=pasted(ssh_box, moved.port))
        new = add_box(home, ssh_box, pasted=pasted(ssh_box, moved.port), replace=True)
        assert new.address.endswith(f":{moved.port}")
        assert (new.price, new.root, new.added_unix) == (old.price, old.root, old.added_unix)
        assert box_of(home, lease).transport.name == "gpu1"
        assert try_box(home).passed
        assert moved.carried_bytes() > 0


def test_a_name_keeps_its_machine_while_its_meter_counts(new_ssh_box: MakeBox, home: Home) -> None:
    first, second = new_ssh_box("first"), new_ssh_box("second")
    add_box(home, first)
    lease = books.open_lease(home.ledger, "gpu1", "generic-ssh", "", "")
    with pytest.raises(Refusal) as raised:
        add_box(home, second, replace=True)
    assert raised.value.code == "box.other_machine"
    with pytest.raises(Refusal):
        add_box(home, second, replace=True, contact=False)
    assert book_rows.find(home, "gpu1").address.endswith(f":{first.port}")
    home.ledger.append("lease_closed", lease=lease.id)
    assert add_box(home, second, replace=True).address.endswith(f":{second.port}")


def test_an_alias_is_resolved_anew_at_every_connect(
    ssh_box: SshBox, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_SSH", f"ssh -F {ssh_box.config}")
    add_box(home, ssh_box, pasted=HOST)
    with TcpProxy(ssh_box.port) as moved:
        before = ssh_box.handshakes()
        monkeypatch.setenv("LEASEHOLD_SSH", " ".join(ssh_box.ssh_command_through(moved.port)))
        find_box(home, "gpu1").connect().close()
        assert ssh_box.handshakes() == before + 1


def test_a_lease_keeps_its_folder_when_the_book_changes(ssh_box: SshBox, home: Home) -> None:
    add_box(home, ssh_box)
    lease = books.open_lease(home.ledger, "gpu1", "generic-ssh", "", "")
    add_box(home, ssh_box, replace=True, root="/elsewhere")
    assert box_of(home, lease).root == ""
    assert find_box(home, "gpu1").root == "/elsewhere"
