"""Seeded lives of rented boxes in virtual time: every fault of the fakes, kills at every step, one or two homes.

A life rents a box for a run, trains, perhaps is preempted, brings its results home and gives the box back, while
landlords misbehave and processes are killed. After each command: no box bills that no screen shows, no run has two
boxes, and no box is destroyed by us whose results are not home.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.errors import LeaseholdError, LinkError
from leasehold.facts.profiles import Shelf
from leasehold.ledger import books
from leasehold.ledger import rentals as book
from leasehold.lifecycle.approval import approve
from leasehold.lifecycle.box.first_contact import Contact
from leasehold.lifecycle.ending import parking, rented_end, teardown, teardown_readings
from leasehold.lifecycle.home.home import Home
from leasehold.lifecycle.money.metering import cost_and_rate
from leasehold.lifecycle.rent.allowance import RentAsk, Yes
from leasehold.lifecycle.rent.by_hand import resume_box
from leasehold.lifecycle.rent.offers import OfferWish, offers_for
from leasehold.lifecycle.rent.rent_box import RentWish, rent_one, rented_for
from leasehold.lifecycle.rent.wait_ready import wait_ready
from leasehold.lifecycle.rentals import markets as markets_module
from leasehold.lifecycle.rentals.api_landlord import ApiLandlord
from leasehold.lifecycle.rentals.desk import Desk
from leasehold.lifecycle.rentals.look import Look, Whose, ask_all, carry_in, prove_missing
from leasehold.lifecycle.results import verify
from leasehold.model.job.job import Artifact, Job
from leasehold.model.lease.box import BoxEntry, Flavour
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import Rental, RentalState, home_of
from leasehold.model.run.note import Note, silent
from leasehold.model.run.plan import Plan
from leasehold.model.run.receipt import Approval, Strength
from leasehold.model.values.money import HourlyPrice
from leasehold.platforms.landlords.market import Market
from leasehold.transport.flavour import DoorReading
from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.direct import direct_market
from tests.fakes.landlords.server import FakeLandlord
from tests.fakes.landlords.street import FAKES
from tests.fakes.landlords.world import GONE, PARKED, RUNNING, EmptyHouses, FakeBox
from tests.support.fake_box import FakeBox as Room

JOB = Job("toy", "python3 train.py", (Artifact("result.json", "json"),), expect_s=600.0)
_MOMENTS = ("rent_intended", "rent_made", "rent_absent", "rent_ready", "intent_recorded", "verb_done", "lease_closed")
_TRIES = 8
_NEVER_STOPS = ("lambda",)


_loads = verify._check_loads
_loaded: list[Any] = []


def _loads_once(*args: Any) -> Any:
    """Load the one result that every life brings home in a real child, once."""
    if not _loaded:
        _loaded.append(_loads(*args))
    return _loaded[0]


_load = Shelf.load
_profiles: dict[str, Any] = {}


def _load_once(shelf: Shelf, name: str) -> Any:
    """Read each profile once: no life has overlays of its own."""
    if name not in _profiles:
        _profiles[name] = _load(shelf, name)
    return _profiles[name]


class Killed(BaseException):
    """The process ends here, as by kill -9."""


class Houses(EmptyHouses):
    """Boxes without a server; a destruction is reported to the life while it happens."""

    def __init__(self, destroyed: Callable[[FakeBox], None]) -> None:
        super().__init__()
        self._destroyed = destroyed

    def destroy(self, box: FakeBox) -> None:
        """Tell the life."""
        self._destroyed(box)


class Person:
    """One home and the run that it wants a box for."""

    def __init__(self, life: Life, number: int) -> None:
        self.life, self.run = life, f"toy-{number}"
        self.home = Home(life.folder / f"home-{number}")
        self.home.ledger._clock = life.clock
        self.notes: list[Note] = []
        self.desk = Desk(self.home, life.open, self.notes.append, life.clock, life.clock.pass_s)
        self.rooms: dict[str, Room] = {}  # by holding: the box's files
        self.trained = self.is_home = False

    def restart(self) -> None:
        """Begin a new process: what was in memory is gone."""
        self.home.ledger.close()
        self.home = Home(self.home.path)
        self.home.ledger._clock = self.life.clock
        self.desk = Desk(self.home, self.life.open, self.notes.append, self.life.clock, self.life.clock.pass_s)

    @property
    def rental(self) -> Rental | None:
        """The box that is held for the run."""
        return rented_for(self.desk, self.run)


class Life:
    """One seeded life."""

    def __init__(self, seed: int, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(seed)
        self.folder, self.clock, self.seen = folder, VirtualClock(), Counter[str]()
        self.kill_at: tuple[str, str] | None = None
        names = self.chance.sample(sorted(FAKES), self.chance.choice((1, 1, 2, min(3, len(FAKES)))))
        self.fakes = {name: self._fake(name) for name in names}
        self.markets: dict[str, Market] = {name: direct_market(fake, self._hook) for name, fake in self.fakes.items()}
        self.people = [Person(self, number) for number in range(self.chance.choice((1, 1, 1, 1, 2)))]
        self._patch(patch)

    # ------------------------------------------------------------ the world

    def _fake(self, name: str) -> FakeLandlord:
        module, _, kind = FAKES[name].partition(":")
        fake: FakeLandlord = getattr(import_module(module), kind)(self.clock, Houses(self._destroyed))
        return fake

    def misbehave(self) -> None:
        """Switch some faults on."""
        chance = self.chance
        for fake in self.fakes.values():
            faults, wrong = fake.faults, chance.random
            faults.lose_creates = [chance.random() < 0.5] if wrong() < 0.3 else []
            faults.lose_acts = [chance.random() < 0.5] if wrong() < 0.25 else []
            faults.too_fast = [chance.choice((None, 1.0, 7.0))] * chance.randint(1, 2) if wrong() < 0.2 else []
            faults.refuse_creates = chance.randint(1, 2) if wrong() < 0.2 else 0
            faults.no_cards, faults.no_ssh = wrong() < 0.05, wrong() < 0.1
            faults.never_starts, faults.start_fails = wrong() < 0.05, wrong() < 0.1
            faults.destroy_s = chance.choice((0.0, 0.0, 20.0, 200.0))
            faults.stop_s = chance.choice((0.0, 0.0, 15.0))
            faults.list_lag_s = chance.choice((0.0, 0.0, 10.0, 45.0))
            faults.page = chance.choice((0, 0, 1, 2))
            faults.price_factor = chance.choice((Decimal(1), Decimal(1), Decimal("1.3")))
            faults.clock_ahead_s = chance.choice((0.0, 0.0, 3600.0, -3600.0))
            faults.down, faults.garbled, faults.odd_page = wrong() < 0.1, wrong() < 0.07, wrong() < 0.05

    def behave(self) -> None:
        """Switch all faults off; the landlord's clock stays wrong."""
        for fake in self.fakes.values():
            ahead = fake.faults.clock_ahead_s
            fake.world.faults = type(fake.faults)(clock_ahead_s=ahead)
            for box in fake.world.live():
                box.until = min(box.until, self.clock() + fake.world.boot_s)  # a start that never ended ends now

    def open(self, name: str) -> Market:
        """Open a landlord."""
        return self.markets[name]

    def _hook(self, moment: str, ask: Any) -> None:
        if self.kill_at == ("wire", moment):
            self.kill_at = None
            raise Killed

    def _pause(self, event: str, phase: str) -> None:
        if self.kill_at == (event, phase):
            self.kill_at = None
            raise Killed

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        """Let the code that reads the machine's clock read the life's, and open boxes as rooms of this life."""
        clock = SimpleNamespace(time=self.clock, monotonic=self.clock, sleep=self.clock.pass_s)
        for module in (teardown, parking, rented_end, approve):
            patch.setattr(module, "time", clock)
        patch.setattr("leasehold.ledger.store.pause_at", self._pause)
        patch.setattr(rented_end, "rented_landlord", self._landlord)
        patch.setattr(markets_module, "rented_landlord", self._landlord)
        for module in (teardown, teardown_readings):
            patch.setattr(module, "box_of", self._room_of)
        patch.setattr(verify, "_check_loads", _loads_once)
        patch.setattr(Shelf, "load", _load_once)

    def _landlord(self, home: Home, lease: Lease, report: Any = silent) -> ApiLandlord | None:
        rental = book.rental_of_lease(home.ledger, lease.id)
        person = next(one for one in self.people if one.home.path == home.path)
        return None if rental is None else ApiLandlord(person.desk, rental)

    def _room_of(self, home: Home, lease: Lease) -> Any:
        """Return the box's files, reachable as long as the landlord runs it."""
        person = next(one for one in self.people if one.home.path == home.path)
        rental = book.rental_of_lease(home.ledger, lease.id)
        assert rental is not None
        room = person.rooms.setdefault(rental.holding, Room(self.folder / "rooms" / rental.holding))
        box = self.fakes[rental.market].world.find(rental.holding)
        room.machine.reachable = (
            box is not None and box.phase == RUNNING and not self.fakes[rental.market].faults.no_ssh
        )
        return room

    def meet(self, entry: BoxEntry) -> Contact:
        """Answer over ssh if the address is right now."""
        box = self.fakes[entry.landlord].world.find(entry.holding)
        port = int(entry.address.rpartition(":")[2])
        if box is None or box.phase != RUNNING or box.address is None or box.address[1] != port:
            raise LinkError("link.refused", "nothing listens there")
        return Contact(DoorReading(Flavour.FULL, (), python="/usr/bin/python3"), "SHA256:fake", "pinned")

    # ------------------------------------------------------------ what must never happen

    def _destroyed(self, box: FakeBox) -> None:
        """Fail if we destroy a box whose results are not home; a landlord may do it on its own."""
        if box.why or self.seen["the landlord destroys"]:
            return
        for person in getattr(self, "people", ()):
            rental = next((one for one in book.rentals(person.home.ledger) if one.holding == box.id), None)
            if rental is not None and rental.run == person.run:
                assert person.is_home or not person.trained, f"{box.id} was destroyed, and its results are not home"

    def check(self) -> None:
        """Fail if a box bills that its home's ledger does not count, or if a run has two boxes."""
        for name, fake in self.fakes.items():
            fake.world.settle()
            assert not fake.problems, fake.problems
            for person in self.people:
                self._check_person(person, name, fake)

    def _check_person(self, person: Person, name: str, fake: FakeLandlord) -> None:
        ledger = person.home.ledger
        known = {one.label: one for one in book.rentals(ledger)}
        open_now = {lease.id for lease in books.leases(ledger, only_open=True)}
        mine = [box for box in fake.world.live() if home_of(box.label) == ledger.home_id[:6]]
        for box in mine:
            rental = known.get(box.label)
            assert rental is not None, f"{box.id} bills and the ledger never heard of it"
            counted = rental.state is RentalState.INTENDED or rental.lease in open_now
            assert counted, f"{box.id} bills, and the ledger says {rental.state.value}"
        boxes = [box for other in self.fakes.values() for box in other.world.live() if box in mine or other is not fake]
        boxes = [box for box in boxes if home_of(box.label) == ledger.home_id[:6]]
        assert len(boxes) <= 1, f"{person.run} has {len(boxes)} boxes"

    # ------------------------------------------------------------ commands

    def command(self, person: Person, act: Callable[[Person], Any], *, kills: bool = True) -> bool:
        """Run one command; return whether it ended well."""
        if kills and self.chance.random() < 0.35:
            wire = ("wire", self.chance.choice(("before", "after")))
            ledger = ("home." + self.chance.choice(_MOMENTS), self.chance.choice(("before", "during", "after")))
            self.kill_at = wire if self.chance.random() < 0.4 else ledger
        try:
            act(person)
            return True
        except Killed:
            self.seen["killed"] += 1
            person.restart()
        except LeaseholdError as error:
            self.seen[error.code] += 1
        finally:
            self.kill_at = None
            self.check()
        return False

    def rent(self, person: Person) -> None:
        """lease run --on …: up to the point where the box answers."""
        names = tuple(self.fakes)
        offers = offers_for(person.desk, JOB, names, OfferWish()).found
        wish = RentWish(person.run, names, "ssh-ed25519 AAAA test", HourlyPrice(Decimal(9), "USD"))
        rental = rent_one(person.desk, wish, offers, self._yes)
        wait_ready(person.desk, rental, 900.0, self.meet)
        self.seen["rented"] += 1

    def _yes(self, ask: RentAsk) -> Yes:
        return Yes(f"yes-{self.chance.random()}", Strength.TYPED, "me")

    def train(self, person: Person) -> None:
        """Start the run on the box, and end it with results there."""
        rental = person.rental
        if rental is None or person.trained:
            return
        lease = books.find_lease(person.home.ledger, rental.lease)
        room = self._room_of(person.home, lease)
        plan = Plan(person.run, JOB, "t" * 64, rental.platform, ("setsid",), ("main",))
        run = room.start(plan, person.home.ledger.home_id)
        (run.out("main") / "result.json").write_bytes(b"{}")
        run.end("finished")
        place = {"box": rental.box, "project": str(self.folder), "results": str(self.folder / "results")}
        ledger = person.home.ledger
        ledger.append("run_planned", lease=lease.id, run=person.run, plan=plan.as_dict(), name="toy", **place)
        ledger.append("run_seen", lease=lease.id, run=person.run, state="running", seq=3)
        person.trained = True
        self.clock.pass_s(self.chance.uniform(600, 20000))

    def bring_home(self, person: Person) -> None:
        """lease pull: a receipt for what the box holds; impossible once the box is away."""
        rental = person.rental
        if rental is None or not person.trained:
            return
        lease = books.find_lease(person.home.ledger, rental.lease)
        room = self._room_of(person.home, lease)
        if not room.reachable:
            raise LinkError("link.timeout", "the box does not answer")
        record = books.find_run(person.home.ledger, person.run)
        from leasehold.lifecycle.results.bring_home import bring_home

        with room.connect() as engine:
            bring_home(person.home.ledger, record, engine, silent)
        person.is_home = True

    def look(self, person: Person) -> None:
        """The look of any command."""
        names = sorted(self.fakes)
        carry_in(person.desk, ask_all(person.desk, names, 60.0))

    def sweep(self, person: Person) -> Look:
        """lease landlord sweep."""
        look = carry_in(person.desk, ask_all(person.desk, sorted(self.fakes), 60.0, accounts=True))
        prove_missing(person.desk, look)
        return look

    def down(self, person: Person) -> None:
        """lease down: through the gate, with a person who says yes."""
        rental = person.rental
        if rental is None:
            return
        lease = books.find_lease(person.home.ledger, rental.lease)
        landlord = ApiLandlord(person.desk, rental)
        wanted = teardown.Wanted("", "looked at the console")
        teardown.tear_down(person.home, lease, wanted, landlord, self._typed, person.notes.append)

    def _typed(self, plan: teardown.TeardownPlan) -> Approval:
        return Approval(approve.new_request(plan.readings), Strength.TYPED, "me", self.clock())

    def resume(self, person: Person) -> None:
        """lease box resume."""
        rental = person.rental
        if rental is None:
            return
        lease = books.find_lease(person.home.ledger, rental.lease)
        resume_box(person.desk, lease, lambda text: f"resume {lease.box}")
        wait_ready(person.desk, rental, 900.0, self.meet)

    def trouble(self) -> None:
        """Have a landlord stop or end a box on its own."""
        fake = self.chance.choice(list(self.fakes.values()))
        boxes = [box for box in fake.world.live() if box.phase == RUNNING]
        if boxes and self.chance.random() < 0.3:
            self.seen["stopped by the landlord"] += 1
            box = self.chance.choice(boxes)
            if fake.name in _NEVER_STOPS:
                box.why = "preempted"  # a landlord without a stop takes the whole box
                fake.world.release(box)
            else:
                fake.world.stop(box, "outbid")

    # ------------------------------------------------------------ a whole life

    def live(self) -> None:
        """Live it, then let every fault end, give everything back, and compare the bills."""
        for person in self.people:
            for _ in range(self.chance.randint(1, 3)):
                self.misbehave()
                if self.command(person, self.rent):
                    break
                self.clock.pass_s(self.chance.uniform(1, 400))
        for person in self.people:
            self.command(person, self.train) if self.chance.random() < 0.8 else None
            self.trouble()
            self.misbehave()
            for act in self.chance.sample((self.look, self.bring_home, self.down, self.look), 3):
                self.command(person, act)
                self.clock.pass_s(self.chance.uniform(1, 4000))
        self.behave()
        for person in self.people:
            self._finish(person)

    def _finish(self, person: Person) -> None:
        for _ in range(_TRIES):
            self.clock.pass_s(300)
            self._settled(person)
            if person.rental is None:
                break
            if self._is_off(person) and person.trained and not person.is_home:
                self.command(person, self.resume, kills=False)
            if person.trained and not person.is_home:
                self.command(person, self.bring_home, kills=False)
            self.command(person, self.down, kills=False)
        look = self.sweep(person)
        assert not look.unknown
        ours = [one for one in look.found if one.whose in (Whose.HELD, Whose.ORPHAN)]
        last = [note.text for note in person.notes[-6:]]
        assert not ours, f"still there: {[one.as_dict() for one in ours]}; {last}; {self.seen}"
        assert not books.leases(person.home.ledger, only_open=True)
        self._compare_bills(person)

    def _settled(self, person: Person) -> None:
        """Do what the next `lease run` does first, and what any command does."""
        from leasehold.lifecycle.rentals.settle import settle_all

        settle_all(person.desk)
        self.sweep(person)

    def _is_off(self, person: Person) -> bool:
        rental = person.rental
        box = self.fakes[rental.market].world.find(rental.holding) if rental else None
        return box is not None and box.phase == PARKED

    def _compare_bills(self, person: Person) -> None:
        for rental in book.rentals(person.home.ledger):
            if not rental.lease:
                continue
            box = self.fakes[rental.market].world.boxes[rental.holding]
            assert box.phase == GONE
            lease = books.find_lease(person.home.ledger, rental.lease)
            ours = sum((amount for _, amount in cost_and_rate(person.home, lease, self.clock())[0].amounts), Decimal(0))
            said = f"billed {box.billed:.4f}, metered {ours:.4f}"
            assert ours >= box.billed * Decimal("0.99") - Decimal("0.01"), said
            if not self.seen["stopped by the landlord"] and not self.seen["killed"]:  # else nobody saw when it ended
                self.seen["bills of quiet lives"] += 1
                self.seen["within 1 %"] += abs(ours - box.billed) <= max(box.billed / 100, Decimal("0.01"))
