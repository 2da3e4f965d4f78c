"""Resolve a box's name to a connection: `local`, `ssh:[user@]host[:port]`, `k8s:CONTEXT[/NAMESPACE]`, a book's name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar, cast

from leasehold.errors import LinkError, UserError
from leasehold.ledger import box_book
from leasehold.model.lease.box import K8S, LOCAL, PERSON, SSH, BoxEntry
from leasehold.transport.early_calls import EarlyCalls
from leasehold.transport.openssh import SshAddress, SshTransport
from leasehold.transport.patience import ENDLESS, WaitLimits
from leasehold.transport.process import LocalTransport
from leasehold.transport.ssh import ssh_config

if TYPE_CHECKING:
    from leasehold.lifecycle.home.home import Home
    from leasehold.lifecycle.records.orders import RunOrder
    from leasehold.model.platform.profile import Profile
    from leasehold.platforms.contract import Engine, MachineEngine
    from leasehold.transport.contract import Transport
    from leasehold.transport.sharing import Way
    from leasehold.transport.wire import Wire

EngineT = TypeVar("EngineT", bound="Engine")
DEFAULT_PLATFORM = "generic-ssh"

# Imports for a conversation happen when there is one: ssh starts first, and its handshake runs meanwhile.


@dataclass(frozen=True)
class Box:
    """A reachable machine: its name, platform, our root folder on it, and how to connect."""

    name: str
    platform: str
    root: str
    transport: Transport
    python_hint: str = ""
    price: str = ""  # its price in the book
    durable: str = ""  # the book's folder for copies
    chosen: bool = False  # a person named its platform
    limits: WaitLimits = field(default=ENDLESS, repr=False, compare=False)  # of the command that found it

    def connect(self) -> MachineEngine:
        """Open one connection; raise LinkError when the box cannot be reached.

        An unknown door is only probed at first: no input may reach a relay's menu.
        """
        from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
        from leasehold.transport.flavour import refuse_closed_door

        first = getattr(self.transport, "met", True) is False
        if first:
            refuse_closed_door(self.transport, thorough=True)
        engine = CaretakerEngine(_wire(self))
        if first:
            cast(SshTransport, self.transport).note_met()
        return engine

    def connect_by(self, transport: Transport) -> MachineEngine:
        """Open one connection by another route to the same box."""
        return replace(self, transport=transport).connect()

    def gateway(self) -> str:
        """Return the gateway of its connection: boxes behind one gateway share a limit on parallel connections."""
        return gateway_of(self.transport)

    def look_in(self) -> MachineEngine:
        """Open one connection for reading, shared with others where possible."""
        from leasehold.transport import sharing
        from leasehold.transport.hello import HANDSHAKE_TIMEOUT_S

        ways = sharing.ways(self.transport, HANDSHAKE_TIMEOUT_S)
        return sharing.first_answer(ways, self._by)

    def told(self) -> list[tuple[int, str]]:
        """Have its boot line print each run's status and its age, over such a connection; nothing is started."""
        from leasehold.transport import sharing
        from leasehold.transport.hello import HANDSHAKE_TIMEOUT_S
        from leasehold.transport.wire import ask_status

        ways = sharing.ways(self.transport, HANDSHAKE_TIMEOUT_S)
        return sharing.first_answer(ways, lambda way: ask_status(way.transport, self.root, way.patience_s, self.limits))

    def _by(self, way: Way) -> MachineEngine:
        from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
        from leasehold.transport.wire import Wire

        return CaretakerEngine(Wire(way.transport, self.root, self.python_hint, way.patience_s, self.limits))


def _wire(box: Box) -> Wire:
    """Open one connection; a transport that may break streams has another try."""
    from leasehold.transport.wire import Wire

    for _ in range(getattr(box.transport, "tries", 1) - 1):
        try:
            return Wire(box.transport, box.root, box.python_hint, limits=box.limits)
        except LinkError as error:
            if error.code not in ("link.lost", "link.strange", "link.pod_over"):
                raise
            getattr(box.transport, "forget", lambda: None)()
    return Wire(box.transport, box.root, box.python_hint, limits=box.limits)


def find_box(home: Home, name: str, *, root: str = "", rehearse: bool = False) -> Box:
    """Resolve the value of --on."""
    return replace(_found(home, name, root, rehearse), limits=home.limits)


def _found(home: Home, name: str, root: str, rehearse: bool) -> Box:
    if name == LOCAL:
        where = home.box_root("rehearsal" if rehearse else "local")
        if rehearse and root not in ("", str(where)):  # `down` deletes a rehearsal's folder: never a user's
            raise UserError("box.no_rehearsal", "--rehearse and --root do not go together", hint="leave --root out")
        platform = "rehearsal" if rehearse else "local"
        return Box("local", platform, root or str(where), LocalTransport(), sys.executable)
    if rehearse:
        raise UserError("box.no_rehearsal", "only --on local can be rehearsed", hint="lease run --on local --rehearse")
    if name.startswith(SSH):
        address = SshAddress.parse(name[len(SSH) :])
        return _box_at(home, address, root)
    if name.startswith(K8S):
        return _box_on_cluster(name)
    entry = box_book.find(home.ledger, name)
    if entry is None:
        raise unknown_box(home, name)
    hint = sys.executable if entry.address == LOCAL else entry.python or _interpreter(home, entry.platform)
    chosen = entry.platform_by == PERSON
    way = way_in(home, entry)
    return Box(entry.name, entry.platform, root or entry.root, way, hint, entry.price, entry.durable, chosen)


def _box_on_cluster(name: str) -> Box:
    """Return the box that a cluster or one run's objects there are; its folder is on the claimed volume."""
    from leasehold.platforms.engines.kubernetes.contexts import transport_to
    from leasehold.platforms.engines.kubernetes.manifest import ROOT

    transport = transport_to(name)
    return Box(transport.name, "kubernetes", ROOT, transport)


def _box_at(home: Home, address: SshAddress, root: str) -> Box:
    """Return a box that is in no book: on the platform that a person named, else on the one that assumes nothing."""
    platform = box_book.chosen_platform(home.ledger, f"{SSH}{address}")
    if not platform:
        return Box(f"{SSH}{address}", DEFAULT_PLATFORM, root, _ssh(home, address))
    profile = home.shelf().load(platform)
    hint = profile.environment.interpreter
    return Box(f"{SSH}{address}", platform, root or folder_on(profile), _ssh(home, address), hint, chosen=True)


def folder_on(profile: Profile) -> str:
    """Return our folder on the tier that the profile gives to runs; empty leaves it to the box's home folder."""
    path = profile.state_tier.path
    return path.rstrip("/") + "/leasehold" if path.startswith("/") else ""


def _interpreter(home: Home, platform: str) -> str:
    """Return the Python that the platform's image surely has, where a login shell would not find it."""
    shelf = home.shelf()
    return shelf.load(platform).environment.interpreter if platform in shelf.names() else ""


@contextmanager
def calling_ahead(home: Home, order: RunOrder) -> Iterator[Box]:
    """Find the requested box; connect at once to one already met, so that the handshake overlaps our own start."""
    box = find_box(home, order.on, root=order.root, rehearse=order.rehearse)
    with EarlyCalls(home.path).opening(order.on, box.transport) as way:
        yield box if way is box.transport else replace(box, transport=way)


@contextmanager
def closed_on_failure(engine: EngineT) -> Iterator[EngineT]:
    """Close a connection if its use fails; otherwise leave it open for the caller."""
    try:
        yield engine
    except BaseException:
        engine.close()
        raise


def way_to(home: Home, name: str) -> Transport:
    """Find the route to a box of a lease; no profile is read for it."""
    if name == LOCAL:
        return LocalTransport()
    if name.startswith(SSH):
        return _ssh(home, SshAddress.parse(name[len(SSH) :]))
    if name.startswith(K8S):
        from leasehold.platforms.engines.kubernetes.contexts import transport_to

        return transport_to(name, reads=False)
    entry = box_book.find(home.ledger, name)
    if entry is None:
        raise unknown_box(home, name)
    return way_in(home, entry)


def gateway_of(way: Transport) -> str:
    """Return the first hop of a route; ssh is asked."""
    return ssh_config.gateway(way.config()) if isinstance(way, SshTransport) else way.name


def _ssh(home: Home, address: SshAddress) -> SshTransport:
    return SshTransport(address, home.pins(str(address)), links=home.links)


def way_in(home: Home, entry: BoxEntry, *, only_pins: bool = False) -> SshTransport | LocalTransport:
    """Open a book entry's current address; only the host key is remembered between connections."""
    if entry.landlord:
        from .rented_way import rented_way

        return rented_way(home, entry, only_pins=only_pins)
    if entry.address == LOCAL:
        return LocalTransport()
    address = SshAddress.parse(entry.address[len(SSH) :])._replace(identity=entry.identity)
    links = None if only_pins else home.links  # a first contact with an expected key is its own proof
    return SshTransport(address, home.pins(str(address)), name=entry.name, only_pins=only_pins, links=links)


def only_plans(platform: str) -> str:
    """Report what is possible on a platform whose engine cannot run yet."""
    return f"lease plan --on {platform} plans and prices the job; run it on a box with SSH"


def unknown_box(home: Home, name: str) -> UserError:
    """Return the error that the book has no such box, with similar names."""
    if name in home.shelf().names():
        what = f"{name!r} is a platform, and no box of it was named"
        if not home.shelf().load(name).runnable:
            return UserError("box.unknown", f"{what}; this version cannot start work there", hint=only_plans(name))
        if home.shelf().load(name).reached == "kubectl":
            return UserError("box.unknown", what, hint="--on k8s:CONTEXT or k8s:CONTEXT/NAMESPACE, as kubectl knows it")
        add = f"lease box add NAME 'ssh -p … root@…' --platform {name}, then --on NAME"
        return UserError("box.unknown", what, hint=add)
    import difflib

    known = [entry.name for entry in box_book.entries(home.ledger)]
    near = difflib.get_close_matches(name, known, 1)
    ways = "lease box list; or --on local, --on ssh:ALIAS, --on ssh:user@host:port, --on k8s:CONTEXT"
    return UserError("box.unknown", f"no box {name!r}", hint=f"did you mean {near[0]}?" if near else ways)
