"""The landlord of one rented box: verbs go to its API and are polled to their end; the bill is read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from leasehold.errors import AnswerLost, LandlordDown, LandlordError, TooFast
from leasehold.ledger import books
from leasehold.model.lease.lease import Lease
from leasehold.model.lease.rental import Rental
from leasehold.model.platform.profile import Verb
from leasehold.model.run.note import Note
from leasehold.model.values.money import Money
from leasehold.platforms.contract import BoxState
from leasehold.platforms.landlords.market import Act, Holding, State

from .desk import Desk, patiently, why
from .states import note_rate

_GOING_S = 900.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 20.0
_ACTS = {"park": Act.PARK, "release": Act.RELEASE, "delete-storage": Act.DELETE_STORAGE}


def acts(verb: Verb) -> bool:
    """Return whether an API can carry out this kind of verb on a box."""
    return verb.kind in ("park", "release")


@dataclass
class ApiLandlord:
    """Acts on one rental; a verb may take several requests, and only the landlord's own word ends it."""

    desk: Desk
    rental: Rental
    going_s: float = _GOING_S
    simulated: bool = False

    def act(self, lease: Lease, verb: Verb) -> BoxState:
        """Ask, and poll to the terminal state; a lost answer is asked for again, which is harmless."""
        wanted, goal = _ACTS[verb.kind], BoxState.PARKED if verb.kind == "park" else BoxState.GONE
        until, pause_s, asked, said = self.desk.clock() + self.going_s, _FIRST_PAUSE_S, False, ""
        while True:
            state, words = self._look(lease)
            if state in (goal, BoxState.GONE):
                return state
            if words != said:
                said = words
                self.desk.report(Note("rent_wait", f"{lease.box}: {self.rental.market} says {words}"))
            if not asked:
                asked = self._ask(wanted)
            if self.desk.clock() >= until:
                return state
            self.desk.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)

    def poll(self, lease: Lease) -> BoxState:
        """Return the platform's present state; UNKNOWN if it cannot be asked."""
        return self._look(lease)[0]

    def bill(self, lease: Lease) -> Money | None:
        """Return the landlord's own bill for the box; None if its API has none, or it cannot be asked now."""
        market = self.desk.open(self.rental.market)
        try:
            return patiently(self.desk, lambda: market.billed(self.rental.holding, self.rental.asked_unix))
        except LandlordError:
            return None

    def left(self) -> list[Holding]:
        """List what belonged to the box and goes on billing; an error of the landlord is raised."""
        listed = patiently(self.desk, self.desk.open(self.rental.market).holdings)
        mine = self.rental.holding
        return [one for one in listed if one.of == mine and one.id != mine and one.state is not State.GONE]

    def _ask(self, wanted: Act) -> bool:
        """Send the request; return whether it was taken as a whole, so that only its end is waited for."""
        market = self.desk.open(self.rental.market)
        try:
            return patiently(self.desk, lambda: market.act(self.rental.holding, wanted))
        except (AnswerLost, LandlordDown, TooFast) as error:
            self.desk.report(Note("warning", f"{why(error)}; asking again"))
            return False

    def _look(self, lease: Lease) -> tuple[BoxState, str]:
        market = self.desk.open(self.rental.market)
        try:
            holding = patiently(self.desk, lambda: market.holding(self.rental.holding))
        except LandlordError as error:
            return BoxState.UNKNOWN, f"nothing: {why(error)}"
        if holding is None:
            return BoxState.GONE, "gone"
        held = books.find_lease(self.desk.ledger, lease.id)
        if held.open and holding.state is not State.GONE:
            note_rate(self.desk, held, holding)
        return _state(holding.state), f"{holding.state.value} ({holding.raw_state})"


def _state(state: State) -> BoxState:
    match state:
        case State.GONE:
            return BoxState.GONE
        case State.PARKED:
            return BoxState.PARKED
        case State.UNKNOWN:
            return BoxState.UNKNOWN
        case State.STARTING | State.RUNNING | State.PARKING | State.RELEASING | State.FAILED:
            return BoxState.HELD
        case _:
            assert_never(state)
