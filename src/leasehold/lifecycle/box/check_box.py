"""Check that a box is fit for a run: host key, door, Python, folder, space, clock; each with its evidence."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.errors import BoxError, LinkError
from leasehold.gates.start.audit import judge_apart
from leasehold.kit.text.units import local_day
from leasehold.lifecycle.machine.box import only_plans, way_in
from leasehold.lifecycle.machine.leased_box import box_called
from leasehold.model.lease.box import BoxEntry, Flavour
from leasehold.model.platform.placing import DEFAULT_ROOT, copy_tier, placed
from leasehold.model.run.verdict import Finding, Outcome, Verdict, passes, refuses, unknown
from leasehold.model.values.units import say_bytes
from leasehold.transport.flavour import DoorReading, Patience, detect
from leasehold.transport.openssh import SshTransport

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import ProbeAnswer
    from leasehold.lifecycle.home.home import Home
    from leasehold.platforms.contract import Engine
    from leasehold.transport.process import LocalTransport


# Leasehold's own minimum: a parcel, a journal and one small checkpoint must fit.
_FREE_BYTES = 200 * 10**6
_FREE_INODES = 1000
_SKEW_S = 120.0
_REFUSALS = ("link.host_key_changed", "link.auth_failed", "link.no_program")
_NOT_TRIED = ("folder", "caretaker", "room", "inodes", "clock")
_ROOT_STATES = {
    "unmade": "cannot be made",
    "unwritable": "takes no file",
    "unreadable": "gives back something else than was written",
    "undeletable": "keeps a file that was deleted",
}


def examine(home: Home, entry: BoxEntry, patience: Patience | None = None) -> tuple[Verdict, BoxEntry]:
    """Test the box; return the verdict and the entry with the findings."""
    verdict, learnt = _try(home, entry, patience)
    profile = home.shelf().load(entry.platform)
    if profile.runnable:
        return verdict, learnt
    what = f"engine: this version cannot start work on {profile.title}, it has no {profile.engine} engine yet"
    return _verdict([refuses(what, only_plans(entry.platform)), *verdict.findings]), learnt


def _try(home: Home, entry: BoxEntry, patience: Patience | None) -> tuple[Verdict, BoxEntry]:
    transport = way_in(home, entry)
    first = isinstance(transport, SshTransport) and not transport.pinned
    try:
        reading = detect(transport, entry.root, patience)
    except LinkError as error:
        return _verdict([_link_finding(error), *_untried("there was no connection")]), entry
    key = _judge_key(entry, transport, first) if isinstance(transport, SshTransport) else []
    findings = [*key, *reading.findings]
    if reading.flavour is Flavour.SHELL_ONLY:
        known = replace(entry, flavour=reading.flavour.value)
        return _verdict([*findings, *_untried("nothing can be started there")]), known
    findings += [_judge_root(reading), *_ask_caretaker(home, entry)]
    return _verdict(findings), _learnt(entry, reading, transport, key)


def _learnt(
    entry: BoxEntry, reading: DoorReading, transport: SshTransport | LocalTransport, key: list[Finding]
) -> BoxEntry:
    trusted = isinstance(transport, SshTransport) and all(f.outcome is Outcome.PASSED for f in key)
    fingerprint = transport.fingerprint() if isinstance(transport, SshTransport) and trusted else entry.fingerprint
    return replace(entry, python=reading.python, flavour=reading.flavour.value, fingerprint=fingerprint)


def _judge_key(entry: BoxEntry, transport: SshTransport, first: bool) -> list[Finding]:
    transport.pin_trusted()
    pinned = transport.fingerprint()
    if not pinned:
        what = "host key: ssh trusts it by a certificate or command of your own set-up; nothing is pinned"
        return [unknown(what)]
    if entry.fingerprint and pinned != entry.fingerprint:
        hint = f"if the console shows the new one: lease box add {entry.name} --replace --fingerprint SHA256:…"
        what = f"host key: now {pinned}, but the book has {entry.fingerprint}"
        return [refuses(what, hint)]
    since = f"unchanged since {local_day(entry.added_unix)}" if entry.fingerprint else "as pinned at first contact"
    return [passes(f"host key: {pinned} {'met and pinned just now' if first else since}")]


def _link_finding(error: LinkError) -> Finding:
    label = "host key" if error.code == "link.host_key_changed" else "reach"
    outcome = Outcome.REFUSED if error.code in _REFUSALS else Outcome.UNKNOWN
    seen = f" ({error.seen})" if error.seen else ""
    return Finding(outcome, f"{label}: {error.message}{seen}", error.hint)


def _judge_root(reading: DoorReading) -> Finding:
    if reading.root_state == "good":
        return passes(f"folder: a 4 kB file was written, read back and deleted in {reading.root}")
    fault = _ROOT_STATES.get(reading.root_state, f"answers {reading.root_state!r}")
    hint = "is the disk full or read-only? Choose another with lease box add NAME --replace --root DIR"
    return refuses(f"folder: {reading.root} {fault}", hint)


def _ask_caretaker(home: Home, entry: BoxEntry) -> list[Finding]:
    """Start the caretaker there and report its own self-check."""
    try:
        with box_called(home, entry.name).connect() as engine:
            asked = time.time()
            facts = engine.box.probe()
            answered = time.time()
            durable = _judge_durable(home, engine, entry, str(facts["root"])) if entry.durable else []
    except (BoxError, LinkError) as error:
        outcome = Outcome.REFUSED if isinstance(error, BoxError) else Outcome.UNKNOWN
        rest = _untried("the caretaker did not answer", _NOT_TRIED[2:])
        return [Finding(outcome, f"caretaker: {error.message}", error.hint), *rest]
    skew_s = float(facts["now_unix"]) - (asked + answered) / 2
    what = f"caretaker: answers with Python {facts['python']} on {facts['host']}"
    return [passes(what), _judge_room(facts), _judge_inodes(facts), _judge_clock(skew_s), *durable]


def _judge_durable(home: Home, engine: Engine, entry: BoxEntry, root: str) -> list[Finding]:
    """Check that the named durable folder exists, is writable, and is on another disk than our own folder."""
    disks = engine.box.readings([root, entry.durable])["disks"]
    if not disks[1].get("exists"):
        return [refuses(f"durable: {entry.durable} does not exist on the box", "attach the volume, or name another")]
    problem = engine.box.probe_tier(entry.durable)
    if problem:
        return [refuses(f"durable: {entry.durable}: {problem}", "is it read-only? Results are copied there")]
    profile = placed(home.shelf().load(entry.platform), entry.root or DEFAULT_ROOT, entry.durable)
    if copy_tier(profile) is None:
        return [passes(f"durable: our folder itself is on {profile.state_tier.name}: no copy is made")]
    apart = judge_apart(profile, tuple(disks)) or _judge_mount(disks[1])
    return [replace(one, what=f"durable: {one.what}") for one in apart]


def _judge_mount(disk: dict[str, Any]) -> list[Finding]:
    """Check the mount itself for a durable folder whose path the profile knows."""
    how = "a mount of its own" if disk["is_mount"] else "NOT mounted"
    what = f"{disk['path']} is {how}: {disk['filesystem']} at {disk['mount']}"
    return [passes(what) if disk["is_mount"] else refuses(what, "attach the volume in the console, then try again")]


def _judge_room(facts: ProbeAnswer) -> Finding:
    free = int(facts["free_bytes"])
    what = f"room: {say_bytes(free)} free in {facts['root']}"
    if free < _FREE_BYTES:
        return refuses(f"{what}; {say_bytes(_FREE_BYTES)} is the least", "free some, or choose --root")
    return passes(what)


def _judge_inodes(facts: ProbeAnswer) -> Finding:
    free, total = int(facts["free_inodes"]), int(facts["total_inodes"])
    if not total:
        return passes("inodes: this filesystem does not count them")
    what = f"inodes: {free:,} of {total:,} free"
    if free < _FREE_INODES:
        return refuses(f"{what}; {_FREE_INODES:,} is the least", "delete small files")
    return passes(what)


def _judge_clock(skew_s: float) -> Finding:
    what = f"clock: the box is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} this machine"
    if abs(skew_s) > _SKEW_S:
        hint = "set the box's clock (or yours): downloads over TLS and signed links fail with a wrong one"
        return refuses(what, hint)
    return passes(what)


def _untried(why: str, names: tuple[str, ...] = _NOT_TRIED) -> list[Finding]:
    return [unknown(f"{name}: not tried, {why}") for name in names]


def _verdict(findings: list[Finding]) -> Verdict:
    return Verdict("box test", tuple(findings))
