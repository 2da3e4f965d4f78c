"""No sequence of events reaches the landlord unless, at that moment, nothing can be lost and a person said yes.

The machine drives the real teardown, ledger and gates; tests/unit/gates/world.py says at the moment of each act
whether it was allowed. And whenever everything was in order the act must have happened: a gate that refuses
everything fails here too.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from leasehold.model.receipt import APPROVAL_LIFE_S, Strength

from .world import BEHAVIOURS, BOX_TROUBLE, FLAWS, HOME_TROUBLE, VERBS, Order, World

TROUBLE = (*BOX_TROUBLE, *HOME_TROUBLE, "processes", "another home", "running", "mended promise", "lost")
WIDER_TROUBLE = ("link", "stranger", "new run", "new run lost", "nothing")
BOUNDED = settings(
    max_examples=220,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def when(holds: Callable[[World], object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Offer a rule only where it can do something."""
    return precondition(lambda machine: machine.world is not None and bool(holds(machine.world)))


class Teardown(RuleBasedStateMachine):
    """Everything that can happen, in any order."""

    seen: collections.Counter[str] = collections.Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None

    @initialize(
        platform=st.sampled_from(sorted(VERBS)),
        begun=st.lists(st.sampled_from(["running", "finished", "home", "home", "given up"]), max_size=2),
    )
    def rent(self, platform, begun):
        """Begin where something is at stake: most teardowns are asked for when most is done."""
        self.world = World(platform)
        for state in begun:
            run = self.world.start_run(("main",) if state == "given up" else ("a", "b"))
            if state != "running":
                self.world.end_run(run, "failed" if state == "given up" else "finished")
            if state == "home":
                self.world.bring_home(run)
            if state == "given up":
                self.world.waive(run, "main")

    def teardown(self) -> None:
        if self.world is not None:
            Teardown.seen.update(self.world.seen)
            self.world.close()

    def our_runs(self, *states: str) -> list[str]:
        box = self.world.box
        ours = [run for run in sorted(box.runs) if run in self.world.known]
        return [run for run in ours if not states or box.runs[run].state in states]

    # ------------------------------------------------------------ runs

    @when(lambda world: world.lease.open and len(world.known) < 3)
    @rule(cells=st.sampled_from([("main",), ("a", "b")]), reaches_box=st.sampled_from([True, True, True, False]))
    def start_run(self, cells, reaches_box):
        self.world.start_run(cells, reaches_box)

    @when(lambda world: any(run.state == "running" for run in world.box.runs.values()))
    @rule(data=st.data(), state=st.sampled_from(["finished", "finished", "failed", "stopped"]))
    def end_run(self, data, state):
        self.world.end_run(data.draw(st.sampled_from(self.our_runs("running"))), state)

    @when(lambda world: any(run.state in ("failed", "stopped") for run in world.box.runs.values()))
    @rule(data=st.data())
    def resume_run(self, data):
        self.world.resume_run(data.draw(st.sampled_from(self.our_runs("failed", "stopped"))))

    @when(lambda world: any(run in world.known and here.state == "finished" for run, here in world.box.runs.items()))
    @rule(data=st.data(), every_cell=st.sampled_from([True, True, False]))
    def bring_home(self, data, every_cell):
        run = data.draw(st.sampled_from(self.our_runs("finished")))
        cells = self.world.known[run].plan.cells
        self.world.bring_home(run, cells if every_cell else cells[:1])

    @when(lambda world: world.known)
    @rule(data=st.data())
    def waive(self, data):
        run = data.draw(st.sampled_from(sorted(self.world.known)))
        self.world.waive(run, data.draw(st.sampled_from(self.world.known[run].plan.cells)))

    # ------------------------------------------------------------ trouble

    @when(lambda world: set(world.known) & set(world.box.runs))
    @rule(data=st.data(), what=st.sampled_from(TROUBLE))
    def trouble(self, data, what):
        self.cause(data.draw(st.sampled_from(self.our_runs())), what)

    def cause(self, run: str, what: str) -> None:
        """Let one thing go wrong with a run that is on the box."""
        world = self.world
        if what in BOX_TROUBLE:
            world.tamper_with_box(run, world.known[run].plan.cells[-1], what)
        elif what in HOME_TROUBLE:
            world.tamper_with_home(run, what)
        elif what == "processes":
            world.box.runs[run].alive = [4711]
        elif what == "another home":
            world.box.runs[run].holder = {"home": "another"}
        elif what == "running":
            world.box.runs[run].state = "running"
        elif what == "mended promise":
            world.mend_promise(run)
        else:
            world.box.lose(run)

    @when(lambda world: world.lease.open)
    @rule(there=st.booleans())
    def a_strangers_run(self, there):
        self.world.stranger(there)

    @when(lambda world: world.lease.open)
    @rule(state=st.sampled_from(["up", "down", "dies early", "dies late"]))
    def link(self, state):
        self.world.link(state)

    @rule(minutes=st.sampled_from([1, 14, 16]))
    def time_passes(self, minutes):
        self.world.clock.now += 60 * minutes

    @rule()
    def everything_is_set_right(self):
        self.world.set_right()

    # ------------------------------------------------------------ the lease

    @when(lambda world: world.lease.open and world.known)
    @rule()
    def a_person_says_it_is_stopped(self):
        self.world.say_stopped()

    @when(lambda world: not world.lease.open)
    @rule(same_box=st.booleans())
    def rent_again(self, same_box):
        self.world.rent_again(same_box)

    @when(lambda world: world.lease.open and world.known)
    @rule(
        strength=st.sampled_from([Strength.TYPED, Strength.SIGNED]),
        behaviours=st.lists(st.sampled_from([*BEHAVIOURS, "crash before"]), min_size=1, max_size=3),
    )
    def tear_down_with_a_good_yes(self, strength, behaviours):
        for behaviour in behaviours:
            self.world.tear_down(Order(strength, behaviour=behaviour))

    @when(lambda world: world.lease.open and set(world.known) & set(world.box.runs))
    @rule(data=st.data(), troubles=st.lists(st.sampled_from([*TROUBLE, *WIDER_TROUBLE]), min_size=1, max_size=5))
    def tear_down_after_a_single_trouble(self, data, troubles):
        for what in troubles:
            self.world.set_right()
            if what in WIDER_TROUBLE:
                self.cause_wider(what)
            elif self.our_runs():
                self.cause(data.draw(st.sampled_from(self.our_runs())), what)
            if self.world.tear_down(Order()) == "gone":
                break

    def cause_wider(self, what: str) -> None:
        """Let something go wrong beside the runs that were there."""
        if what == "link":
            self.world.link("down")
        elif what == "stranger":
            self.world.stranger(True)
        elif what.startswith("new run") and len(self.world.known) < 5:
            run = self.world.start_run()
            self.world.end_run(run)
            if what == "new run lost":
                self.world.box.lose(run)

    @rule(strength=st.sampled_from(list(Strength)), flaw=st.sampled_from(["none", "old", *FLAWS]))
    def tear_down_with_a_doubtful_yes(self, strength, flaw):
        self.world.tear_down(Order(strength, flaw))

    @when(lambda world: world.lease.open)
    @rule(data=st.data(), what=st.sampled_from(["box", "processes", "link", "waive", "wait", "stranger", "home"]))
    def tear_down_while_something_happens(self, data, what):
        world = self.world

        def meanwhile() -> None:
            runs = self.our_runs()
            if what == "link":
                world.link("down")
            elif what == "wait":
                world.clock.now += APPROVAL_LIFE_S + 1
            elif what == "stranger":
                world.stranger(True)
            elif runs:
                run = data.draw(st.sampled_from(runs))
                if what == "box":
                    world.tamper_with_box(run, world.known[run].plan.cells[0], "touch")
                elif what == "processes":
                    world.box.runs[run].alive = [4711]
                elif what == "waive":
                    world.waive(run, world.known[run].plan.cells[0])
                elif what == "home" and world.known[run].receipt_number:
                    world.tamper_with_home(run, "flip")

        world.tear_down(Order(meanwhile=meanwhile))

    @invariant()
    def every_act_left_an_intent_before_it(self):
        if self.world is not None:
            intents = [event.data["approval"] for event in self.world.home.ledger.events(kind="intent_recorded")]
            assert len(set(intents)) == len(intents) == len(self.world.used)


@pytest.mark.full  # fewer sequences would not meet every event that it must meet
def test_no_sequence_of_events_tears_down_what_is_not_safe():
    Teardown.seen.clear()
    run_state_machine_as_test(Teardown, settings=BOUNDED)
    for outcome in ("acted on receipts", "acted on waivers", "retried", "gone", "teardown.refused", "approval.refused"):
        assert Teardown.seen[outcome] > 0, f"the machine never saw {outcome!r}: {dict(Teardown.seen)}"
