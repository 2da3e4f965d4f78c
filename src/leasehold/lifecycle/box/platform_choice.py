"""Choose a box's platform: signs propose one and a person confirms it; without a terminal it must be named."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leasehold.errors import Refusal, UserError
from leasehold.gates.start.platform_signs import SignReadings, judge_signs
from leasehold.ledger import books, box_book
from leasehold.lifecycle.approval.phrase import terminal_ask
from leasehold.lifecycle.machine.box import DEFAULT_PLATFORM, Box, folder_on, way_in, way_to
from leasehold.model.lease.box import LOCAL, PERSON, SSH, BoxEntry
from leasehold.model.platform.platform_signs import Match, pointed_to, read_address, say_seen
from leasehold.model.run.note import Note, Report
from leasehold.transport.openssh import SshAddress, SshTransport

if TYPE_CHECKING:
    from leasehold.facts.profiles import Shelf
    from leasehold.lifecycle.home.home import Home
    from leasehold.lifecycle.records.orders import BoxOrder
    from leasehold.model.platform.profile import Profile
    from leasehold.transport.contract import Transport

Ask = Callable[[str], str]


def settle(home: Home, on: str, platform: str, report: Report, ask: Ask = terminal_ask) -> None:
    """Record the platform that a person names for an ssh: address before a launch, or ask where signs propose one."""
    if not on.startswith(SSH):
        if platform:
            hint = f"lease box add {on or 'NAME'} --replace --platform {platform}"
            raise UserError("box.platform_in_book", "--platform is for --on ssh:…; a box's is in the book", hint=hint)
        return
    name = f"{SSH}{SshAddress.parse(on[len(SSH) :])}"
    known = box_book.chosen_platform(home.ledger, name)
    if not platform and (known or any(lease.box == name for lease in books.leases(home.ledger, only_open=True))):
        return
    matches = of_address(home, way_to(home, name))
    if not platform and matches:
        platform = pick(matches, name, ask)
    if platform:
        refuse_unserved(home.shelf().load(platform), name)
    if platform and platform != known:
        _record(home, name, platform, matches, report)


def refuse_unserved(profile: Profile, address: str) -> None:
    """Refuse a local platform for a box that is reached by ssh: nobody could give it up there.

    A profile that extends the simulated rental is that machine too, whatever its `reached` states.
    """
    if not address.startswith(SSH) or (profile.reached == "ssh" and profile.landlord != "simulated"):
        return
    raise UserError(
        "box.platform_here",
        f"{profile.id} is {profile.title}: a box behind ssh cannot be on it",
        hint=f"name the platform that it is rented from, or --platform {DEFAULT_PLATFORM} (lease platforms lists them)",
    )


def platform_at(home: Home, on: str) -> str:
    """Return the platform of an ssh: address for a plan; one that signs contradict must be named first."""
    name = f"{SSH}{SshAddress.parse(on[len(SSH) :])}"
    known = box_book.chosen_platform(home.ledger, name)
    if known:
        return known
    for lease in books.leases(home.ledger, only_open=True):
        if lease.box == name:
            return lease.platform
    if matches := of_address(home, way_to(home, name)):
        error = unnamed(matches, name)
        names = " or ".join(found.platform for found in matches)
        error.hint = f"lease plan --on {names}; or lease box add NAME '…' --platform {names}, then --on NAME"
        raise error
    return DEFAULT_PLATFORM


def of_address(home: Home, way: Transport) -> list[Match]:
    """List the platforms that a box's ssh address points to; ssh resolves an alias."""
    platforms = home.shelf().signs()
    host, user = way.destination() if isinstance(way, SshTransport) else ("", "")
    return pointed_to(platforms, read_address(platforms, host, user))


def readings(shelf: Shelf, box: Box, priced: bool) -> SignReadings:
    """Start a box's sign readings with its address as written; the audit adds readings from the box itself."""
    platforms = shelf.signs()
    way = getattr(box.transport, "called", box.transport)
    address = way.address if isinstance(way, SshTransport) else SshAddress("")
    read = read_address(platforms, address.host, address.user)
    return SignReadings(platforms, read, box.name, priced, box.chosen)


def signs_of(home: Home, entry: BoxEntry) -> SignReadings:
    """Return the signs in an entry's address."""
    platforms = home.shelf().signs()
    way = way_in(home, entry)
    host, user = way.destination() if isinstance(way, SshTransport) else ("", "")
    return SignReadings(platforms, read_address(platforms, host, user), entry.name)


def pick_platform(
    order: BoxOrder, entry: BoxEntry, old: BoxEntry | None, signs: SignReadings, ask: Ask
) -> tuple[str, str]:
    """Choose an entry's platform and its source: the person's statement, the book, signs and a question."""
    if order.platform:
        return order.platform, PERSON
    if entry.address == LOCAL:
        return entry.platform or LOCAL, entry.platform_by
    matches = pointed_to(signs.platforms, signs.read)
    known = [found.platform for found in matches]
    moved = old is None or _host(old.address) != _host(entry.address)
    settled = not matches or entry.platform in known or (entry.platform_by == PERSON and not moved)
    if entry.platform and settled:
        return entry.platform, entry.platform_by
    if not matches:
        return DEFAULT_PLATFORM, ""
    return pick(matches, f"{entry.name} ({entry.address})", ask), PERSON


def say_signs(profile: Profile, signs: SignReadings, report: Report) -> None:
    """Report what contradicts the platform that a box is booked as."""
    for finding in judge_signs(profile, signs):
        if finding.hint:
            report(Note("warning", f"{finding.what}\n      -> {finding.hint}"))
        elif finding.what:
            report(Note("finding", f"  ok  {finding.what}"))


def _host(address: str) -> str:
    return SshAddress.parse(address[len(SSH) :]).host if address.startswith(SSH) else address


def pick(matches: list[Match], where: str, ask: Ask) -> str:
    """Ask a person which platform this is; where nobody can be asked, it must be named."""
    names = [found.platform for found in matches]
    like = " or ".join(f"{found.title} ({found.platform})" for found in matches)
    offer = f"[{names[0]}]" if len(names) == 1 else "(" + ", ".join([*names, DEFAULT_PLATFORM]) + ")"
    question = (
        f"{where} looks like a box of {like}: {say_seen(matches)}.\n"
        f"Its disks, its meter and what deletes them follow from the platform; {DEFAULT_PLATFORM} assumes the worst.\n"
        f"platform {offer}: "
    )
    try:
        answer = ask(question).strip()
    except Refusal as error:
        if error.code != "approval.no_terminal":
            raise
        raise unnamed(matches, where) from None
    if not answer and len(names) == 1:
        return names[0]
    if not answer:
        raise unnamed(matches, where)
    return answer


def unnamed(matches: list[Match], where: str) -> UserError:
    """Return the error that signs point to a platform and nobody named one."""
    names = [found.platform for found in matches]
    return UserError(
        "box.platform_unnamed",
        f"{where} looks like a box of {' or '.join(names)}, and no platform was named",
        seen=say_seen(matches),
        hint=f"--platform {' or '.join(names)}; or --platform {DEFAULT_PLATFORM}, which assumes the worst of its disks",
    )


def _record(home: Home, name: str, platform: str, matches: list[Match], report: Report) -> None:
    root = folder_on(home.shelf().load(platform))
    for lease in books.leases(home.ledger, only_open=True):
        if lease.box == name and lease.platform != platform and not box_book.rebook(home.ledger, lease, platform, root):
            raise Refusal(
                "box.platform_leased",
                f"{lease.id} is open on {name} as {lease.platform}, and has runs there",
                hint=f"leave out --platform to go on with it; or lease down {lease.id} first",
            )
    against = [found.platform for found in matches if found.platform != platform]
    box_book.choose_platform(home.ledger, name, platform, against)
    report(Note("platform", f"{name} is on {platform} from now on, as you stated", {"platform": platform}))
