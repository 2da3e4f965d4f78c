"""The box book: names for machines, each contacted once before it is recorded."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import LinkError, Refusal, UserError
from leasehold.kit.files.paths import UnsafePath, check_name
from leasehold.ledger import box_book
from leasehold.lifecycle.approval.phrase import terminal_ask
from leasehold.lifecycle.machine.box import folder_on
from leasehold.lifecycle.records.orders import BoxOrder, BoxWord
from leasehold.model.lease.box import LOCAL, PERSON, SSH, BoxEntry, Flavour
from leasehold.model.platform.placing import DEFAULT_ROOT, placed
from leasehold.model.platform.platform_signs import asked_of_box
from leasehold.model.run.note import Note, Report
from leasehold.model.values.money import HourlyPrice
from leasehold.transport.early_calls import EarlyCalls
from leasehold.transport.flavour import Patience, refuse_shell_only
from leasehold.transport.paste import PastedSsh, parse_paste
from leasehold.transport.ssh.host_keys import parse_fingerprint

from .book_rows import find, lease_line, open_leases_on
from .box_paths import refuse_durable, say_places
from .check_box import examine
from .dangers import say_dangers
from .first_contact import Contact, meet, say_finding
from .lease_notes import checked_amount, note_spot, tell
from .platform_choice import Ask, pick_platform, refuse_unserved, say_signs, signs_of
from .reboot_consent import forget

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.model.lease.lease import Lease
    from leasehold.model.run.verdict import Verdict

_SILENT = ("link.refused", "link.timeout", "link.no_such_host", "link.lost")


def add(
    home: Home, order: BoxOrder, report: Report, patience: Patience | None = None, ask: Ask = terminal_ask
) -> BoxEntry:
    """Contact the box, show what it is and what its platform does, and record it; if anything fails, record nothing."""
    _check_name(home, order.name)
    if order.fingerprint and not order.contact:
        raise UserError("box.unmet_key", "--fingerprint needs a contact", hint="leave out --no-contact")
    old = box_book.find(home.ledger, order.name)
    if order.balance:
        checked_amount(order.balance)
    entry = _wanted(home, order, old if order.replace else None, report)
    box_book.refuse_duplicate(home.ledger, entry, replace=order.replace)
    held = open_leases_on(home, entry.name)
    signs = signs_of(home, entry)
    if order.contact:
        contact = _contact(home, entry, order, patience, asked_of_box(signs.platforms))
        entry = _met(entry, contact, report)
        signs = replace(signs, read={**signs.read, **contact.reading.signs})
    if old and held and not order.fingerprint:
        _refuse_other_machine(old, entry, held[0])
    picked = pick_platform(order, entry, old, signs, ask)
    entry = _on_platform(home, order, entry, old if order.replace else None, picked)
    if entry.durable:
        refuse_durable(home, entry)
    profile = home.shelf().load(entry.platform)
    report(Note("box", f"{entry.name}: {entry.address} on {profile.title}", entry.as_dict()))
    say_signs(profile, replace(signs, chosen=entry.platform_by == PERSON), report)
    box_book.record(home.ledger, entry, replace=order.replace)
    if old:
        _rebook(home, old, entry, held, report)
    EarlyCalls(home.path).forget()
    if order.balance:
        tell(home, BoxWord(entry.name, order.balance), time.time())
        entry = find(home, entry.name)
    for lease in held:
        if order.spot is not None and order.spot != lease.spot:
            note_spot(home.ledger, lease, order.spot)
    here = placed(profile, entry.root or DEFAULT_ROOT, entry.durable)
    say_dangers(here, report, time.time())
    report(Note("danger", f"where files lie on {entry.name}:"))
    for line in say_places(entry, here):
        report(Note("danger", f"  - {line}"))
    _warn_of_twins(home, entry, report)
    return entry


def remove(home: Home, name: str, report: Report) -> BoxEntry:
    """Remove a box from the book; refuse while its meter counts."""
    entry = find(home, name)
    held = open_leases_on(home, name)
    if held:
        raise Refusal(
            "box.leased",
            f"{name} stays in the book: without it {held[0].id} would stop counting, and nobody could reach its runs",
            seen="\n".join(lease_line(home, lease) for lease in held),
            hint=f"lease down {held[0].id}; if you stopped it in the console: lease down {held[0].id} --stopped",
        )
    forget(home, name, report)
    EarlyCalls(home.path).forget()
    box_book.remove(home.ledger, name)
    report(Note("box_removed", f"{name} ({entry.address}) is removed from the book; no meter counted on it"))
    return entry


def test(home: Home, name: str, report: Report, patience: Patience | None = None) -> Verdict:
    """Test everything that a run needs, each with its evidence; record the findings."""
    entry = find(home, name)
    verdict, learnt = examine(home, entry, patience)
    for finding in verdict.findings:
        say_finding(finding, report)
    box_book.record(home.ledger, learnt, replace=True)
    return verdict


def _check_name(home: Home, name: str) -> None:
    try:
        check_name(name, "box name")
    except UnsafePath as error:
        raise UserError("box.bad_name", str(error)) from None
    if name == LOCAL or name.startswith(SSH) or name in home.shelf().names():
        raise UserError("box.bad_name", f"{name!r} already means something to --on", hint="choose another name")


def _wanted(home: Home, order: BoxOrder, old: BoxEntry | None, report: Report) -> BoxEntry:
    """Build the requested entry except platform and folder; take unstated values from the old entry."""
    base = old or BoxEntry(order.name, "", "", added_unix=time.time())
    if order.pasted:
        base = _placed(base, order.pasted, report)
    if not base.address:
        raise UserError(
            "box.no_address",
            f"where is {order.name}? The book has no address for it",
            hint=f"paste the console's ssh command: lease box add {order.name} 'ssh -p 22 root@…'",
        )
    if order.platform:
        refuse_unserved(home.shelf().load(order.platform), base.address)
    root = order.root or base.root
    if root and not root.startswith(("/", "~/")):
        raise UserError("box.bad_root", f"--root {root!r} is not absolute", hint="write /folder or ~/folder on the box")
    price = str(HourlyPrice.parse(order.price)) if order.price else base.price
    spot = base.spot if order.spot is None else order.spot
    durable = order.durable.rstrip("/") or base.durable
    return replace(base, price=price, root=root, spot=spot, durable=durable)


def _on_platform(
    home: Home, order: BoxOrder, entry: BoxEntry, old: BoxEntry | None, picked: tuple[str, str]
) -> BoxEntry:
    """Set the entry's platform; a folder derived from the old platform is derived from the new one."""
    platform, by = picked
    profile = home.shelf().load(platform)
    refuse_unserved(profile, entry.address)
    root = entry.root
    if old and not order.root and old.platform != platform and root == folder_on(home.shelf().load(old.platform)):
        root = ""
    local = entry.address == LOCAL
    root = root or (str(home.box_root(order.name)) if local else folder_on(profile))
    return replace(entry, platform=profile.id, platform_by=by, root=root)


def _rebook(home: Home, old: BoxEntry, entry: BoxEntry, held: list[Lease], report: Report) -> None:
    """Move open leases to the box's new platform; one with runs there stays as it is, and is reported."""
    if (old.platform, old.root) == (entry.platform, entry.root):
        return
    mistaken = home.shelf().load(old.platform).reached == "here" and entry.address.startswith(SSH)
    for lease in held:
        if mistaken and lease.platform == old.platform:  # no ssh box is on this platform: its runs stay where they are
            box_book.move_platform(home.ledger, lease, entry.platform)
        elif lease.root == old.root and not box_book.rebook(home.ledger, lease, entry.platform, entry.root):
            place = entry.root or "~/.leasehold"
            text = f"{lease.id} has runs in {lease.root or '~/.leasehold'} and stays there, on {lease.platform}"
            text += f"; new runs open another lease, in {place}: end the old one with lease down {lease.id}"
            report(Note("warning", text, {"lease": lease.id}))


def _placed(base: BoxEntry, text: str, report: Report) -> BoxEntry:
    """Read address and key file from the pasted text; a box at another address is not yet known."""
    if text.strip() == LOCAL:
        return replace(base, address=LOCAL, identity="")
    pasted = parse_paste(text)
    if pasted.options_ignored:
        report(Note("ignored", f"not taken from the command: {', '.join(pasted.options_ignored)}"))
    address, identity = f"{SSH}{pasted.address}", _key_file(pasted, report)
    if address == base.address:
        return replace(base, identity=identity)
    unmet = Flavour.UNKNOWN.value
    return replace(base, address=address, identity=identity, fingerprint="", python="", flavour=unmet)


def _key_file(pasted: PastedSsh, report: Report) -> str:
    """Find the named key here; consoles print the same file name for everybody."""
    if not pasted.identity:
        return ""
    path = Path(pasted.identity).expanduser().absolute()
    if path.exists() or Path(f"{path}.pub").exists():
        return str(path)
    report(Note("ignored", f"{pasted.identity} is not here; your ssh config, agent and default keys are used instead"))
    return ""


def _contact(
    home: Home, entry: BoxEntry, order: BoxOrder, patience: Patience | None, signs: list[tuple[str, str]]
) -> Contact:
    expected = parse_fingerprint(order.fingerprint) if order.fingerprint else ""
    try:
        return meet(home, entry, expected, patience, signs)
    except LinkError as error:
        if error.code in _SILENT:
            error.hint = f"{error.hint or 'try ssh by hand'}; or record it without contact: --no-contact"
        raise


def _met(entry: BoxEntry, contact: Contact, report: Report) -> BoxEntry:
    reading = contact.reading
    if contact.fingerprint:
        key = {"fingerprint": contact.fingerprint}
        report(Note("host_pinned", f"host key {contact.fingerprint} {contact.how}", key))
    for finding in reading.findings:
        say_finding(finding, report)
    refuse_shell_only(entry.name, entry.address, reading)
    flavour = reading.flavour.value
    return replace(entry, python=reading.python, flavour=flavour, fingerprint=contact.fingerprint)


def _refuse_other_machine(old: BoxEntry, entry: BoxEntry, lease: Lease) -> None:
    """Refuse another machine under a name with leases: their runs lie on one machine, which the name must keep."""
    same_place = (old.address, old.fingerprint) == (entry.address, entry.fingerprint)
    if same_place or (old.fingerprint and old.fingerprint == entry.fingerprint):
        return
    raise Refusal(
        "box.other_machine",
        f"{lease.id} is open on {old.name}, and {entry.address} is not shown to be the same machine",
        seen=f"host key then {old.fingerprint or 'unknown'}, now {entry.fingerprint or 'unknown'}",
        hint=f"lease down {lease.id} first; or, if it is the same: --fingerprint SHA256:… as the console shows it",
    )


def _warn_of_twins(home: Home, entry: BoxEntry, report: Report) -> None:
    for lease in open_leases_on(home, entry.address):
        text = f"{lease.id} is open on {entry.address} and counts by itself; runs --on {entry.name} open another lease"
        report(Note("warning", f"{text}: end it with lease down {lease.id}", {"lease": lease.id}))
