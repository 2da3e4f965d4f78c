"""Single stories of `lease down`, told with the real teardown, ledger and gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from leasehold.errors import Refusal, UserError
from leasehold.ledger import books
from leasehold.lifecycle.ending import teardown
from leasehold.model.run.note import silent
from leasehold.model.run.receipt import APPROVAL_LIFE_S, Strength
from tests.unit.gates.end.world import BOX_TROUBLE, FLAWS, HOME_TROUBLE, OVERLAYS, QUIET_TROUBLE, VERBS, Order, World


@pytest.fixture
def new_world() -> Iterator[Callable[[str], World]]:
    """Give a function that makes worlds."""
    worlds: list[World] = []

    def make(platform: str = "generic-ssh") -> World:
        worlds.append(World(platform))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(new_world) -> World:
    """A finished run that is home: only the yes is missing."""
    made = new_world()
    run = made.start_run()
    made.end_run(run)
    made.bring_home(run)
    return made


def intents(world: World) -> int:
    return len(list(world.home.ledger.events(kind="intent_recorded")))


# ---------------------------------------------------------------- the way through


@pytest.mark.parametrize("platform", sorted(VERBS))
@pytest.mark.parametrize("strength", list(Strength))
def test_what_is_home_goes_with_a_yes_that_is_strong_enough(new_world, platform, strength):
    world = new_world(platform)
    run = world.start_run(("a", "b"))
    world.end_run(run)
    world.bring_home(run)
    weak = strength is Strength.STANDING or strength is Strength.REHEARSAL and platform != "rehearsal"
    assert world.tear_down(Order(strength)) == ("approval.refused" if weak else "gone")
    assert len(world.landlord.acts) == (0 if weak else 1)
    assert world.lease.open is weak


def test_what_was_given_up_goes_with_a_yes(new_world):
    world = new_world()
    run = world.start_run()
    world.end_run(run, "failed")
    assert world.tear_down(Order()) == "teardown.refused"
    world.waive(run, "main")
    assert world.tear_down(Order()) == "gone"


def test_a_lease_on_which_nothing_ran_goes_with_a_yes(new_world):
    world = new_world()
    assert world.tear_down(Order(flaw="person says no")) == "approval.not_given"
    assert world.tear_down(Order()) == "gone"


def test_a_run_that_was_planned_and_never_started_is_no_loss(new_world):
    world = new_world()
    world.start_run(reaches_box=False)
    assert world.tear_down(Order()) == "gone"


def test_the_second_call_finds_it_done(world):
    assert world.tear_down(Order()) == "gone"
    assert world.tear_down(Order()) == "gone"
    assert len(world.landlord.acts) == 1
    assert world.seen["approval asked for"] == 1


def test_a_slow_landlord_is_polled_to_the_end(world):
    assert world.tear_down(Order(behaviour="slow")) == "gone"


def test_looking_changes_nothing(world):
    before = list(world.home.ledger.events())
    plan = teardown.plan_teardown(world.home, world.lease, teardown.Wanted())
    assert plan.verdict.passed
    assert list(world.home.ledger.events()) == before
    told = plan.as_dict()
    assert (told["verb"], told["reversible"], told["lease"]) == ("stop-by-hand", False, world.lease.id)
    assert [(item["cell"], item["path"]) for item in told["not_coming_home"]] == [("main", "scratch.tmp")]
    assert told["exports"] == [str(world.export("toy-1"))]


def test_an_unknown_verb_is_named_with_the_known_ones(world):
    with pytest.raises(UserError) as caught:
        teardown.plan_teardown(world.home, world.lease, teardown.Wanted("explode"))
    assert caught.value.code == "lease.unknown_verb"
    assert "stop-by-hand" in caught.value.hint


# ---------------------------------------------------------------- what stands in the way


@pytest.mark.parametrize("how", sorted(set(BOX_TROUBLE) - {"new below", "mapped", "second name"}))
def test_a_changed_artifact_on_the_box_stops_it_until_it_is_home_again(world, how):
    world.tamper_with_box("toy-1", "main", how)
    assert world.tear_down(Order()) == "teardown.refused"
    assert world.seen["approval asked for"] == 0, "nobody is asked about what may not be"
    world.set_right()
    assert world.tear_down(Order()) == "gone"


def test_a_write_that_moved_no_time_is_found_by_reading_before_the_act(world):
    world.tamper_with_box("toy-1", "main", "mapped")
    assert world.tear_down(Order()) == "teardown.refused"
    assert (world.landlord.acts, intents(world)) == ([], 0)
    world.set_right()
    assert world.tear_down(Order()) == "gone"


@pytest.mark.parametrize("how", ["in place", "mapped"])
def test_a_write_while_the_person_thinks_is_found(world, how):
    changed = Order(meanwhile=lambda: world.tamper_with_box("toy-1", "main", how))
    assert world.tear_down(changed) == "teardown.refused"
    assert (world.landlord.acts, intents(world)) == ([], 0)


def test_a_second_name_alone_changes_no_byte_and_stops_nothing(world):
    world.tamper_with_box("toy-1", "main", "second name")
    assert world.tear_down(Order()) == "gone"


def test_a_new_file_that_nobody_promised_does_not_stop_it(world):
    world.tamper_with_box("toy-1", "main", "new below")
    assert world.tear_down(Order()) == "gone"


@pytest.mark.parametrize("how", HOME_TROUBLE)
def test_a_damaged_home_copy_stops_it_until_it_is_mended(world, how):
    world.tamper_with_home("toy-1", how)
    assert world.tear_down(Order()) == "teardown.refused"
    world.set_right()
    assert world.tear_down(Order()) == "gone"


def alive(world: World) -> None:
    world.box.runs["toy-1"].alive = [4711]


def held(world: World) -> None:
    world.box.runs["toy-1"].holder = {"home": "another"}


def running(world: World) -> None:
    world.box.runs["toy-1"].state = "running"


def lost(world: World) -> None:
    world.box.lose("toy-1")


def stranger(world: World) -> None:
    world.stranger(True)


def link_down(world: World) -> None:
    world.link("down")


def link_dies_early(world: World) -> None:
    world.link("dies early")


def link_dies_late(world: World) -> None:
    world.link("dies late")


def second_run(world: World) -> None:
    world.end_run(world.start_run())


def second_run_vanished(world: World) -> None:
    second_run(world)
    world.box.lose("toy-2")


TROUBLE = [
    alive,
    held,
    running,
    lost,
    stranger,
    link_down,
    link_dies_early,
    link_dies_late,
    second_run,
    second_run_vanished,
]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_on_the_box_stops_it(world, trouble):
    trouble(world)
    assert world.tear_down(Order()) == "teardown.refused"
    assert (world.landlord.acts, intents(world), world.lease.open) == ([], 0, True)


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_while_a_person_thinks_stops_it(world, trouble):
    assert world.tear_down(Order(meanwhile=lambda: trouble(world))) == "teardown.refused"
    assert world.seen["approval asked for"] == 1
    assert (world.landlord.acts, intents(world)) == ([], 0)


QUIET = sorted(set(QUIET_TROUBLE) - {"reader", "another process"})


@pytest.mark.parametrize("what", QUIET)
def test_trouble_that_no_result_shows_stops_it_until_it_is_set_right(world, what):
    world.trouble("toy-1", what)
    assert world.tear_down(Order()) == "teardown.refused"
    assert (world.landlord.acts, world.seen["approval asked for"]) == ([], 0)
    world.set_right()
    assert world.tear_down(Order()) == "gone"


@pytest.mark.parametrize("what", QUIET)
def test_trouble_that_no_result_shows_is_seen_while_a_person_thinks(world, what):
    assert world.tear_down(Order(meanwhile=lambda: world.trouble("toy-1", what))) == "teardown.refused"
    assert (world.landlord.acts, intents(world)) == ([], 0)


@pytest.mark.parametrize("what", [*OVERLAYS, "home seen on the box"])
def test_what_a_person_has_looked_at_is_no_doubt_any_more(world, what):
    world.trouble("toy-1", what)
    assert world.tear_down(Order(facts_checked="the console says so")) == "gone"


def test_a_reader_stops_nothing_and_a_writer_does_until_a_person_knows_it(world):
    world.trouble("toy-1", "reader")
    world.trouble("toy-1", "writer")
    assert world.tear_down(Order()) == "teardown.refused"
    world.call_harmless("toy-1", 4001)
    world.trouble("toy-1", "another process")
    assert world.tear_down(Order()) == "teardown.refused", "the number was given to another process"
    world.call_harmless("toy-1", 4001)
    assert world.tear_down(Order()) == "gone"


def test_unreadable_folders_of_other_users_are_named_and_stop_nothing(world, monkeypatch):
    here = {**world.box.identity(), "closed": ["/root", *(f"/home/{n}\x1b[2J" for n in range(9))]}
    monkeypatch.setattr(world.box, "identity", lambda: here)
    plan = teardown.plan_teardown(world.home, world.lease, teardown.Wanted())
    said = [finding.what for finding in plan.verdict.findings]
    (closed,) = [what for what in said if "not known whether runs of other users lie in /root, /home/0" in what]
    assert "and 5 more" in closed and "\x1b" not in closed
    assert world.tear_down(Order()) == "gone"


@pytest.mark.parametrize("how", ["another root", "another name"])
@pytest.mark.parametrize("platform", sorted(VERBS))
def test_results_under_another_root_or_name_stop_what_ends_the_machine(new_world, platform, how):
    world = new_world(platform)
    world.end_run(world.start_run())
    world.bring_home("toy-1")
    second = world.rent_second(how)
    world.end_run(second)
    ends_the_machine = platform == "generic-ssh"
    assert world.tear_down(Order()) == ("teardown.refused" if ends_the_machine else "gone")
    if ends_the_machine:
        world.bring_home(second)
        assert world.tear_down(Order()) == "gone"


def test_a_person_s_word_is_not_taken_against_the_box_s_own(world):
    assert not world.say_stopped()
    assert world.lease.open


def test_a_box_heard_after_it_was_called_stopped_is_judged_as_before(world):
    second_run(world)
    world.link("down")
    assert world.say_stopped()
    world.hear_again()
    assert world.lease.open
    assert world.tear_down(Order()) == "teardown.refused"
    world.bring_home("toy-2")
    assert world.tear_down(Order()) == "gone"


@pytest.mark.parametrize("what", ["unmounted", "lost"])
def test_a_waiver_covers_no_run_that_is_missed_later(new_world, what):
    """It was seen and salvaged, and may have gone on since: whoever misses it must say so knowing that."""
    world = new_world()
    run = world.start_run()
    world.end_run(run, "failed")
    world.waive(run, "main")
    if what == "unmounted":
        world.trouble(run, what)
    else:
        world.box.lose(run)
    assert world.tear_down(Order()) == "teardown.refused"
    world.waive(run, "main")
    assert world.tear_down(Order()) == "gone"


def test_an_unreachable_box_on_which_nothing_ran_stays_too(new_world):
    world = new_world()
    world.link("down")
    assert world.tear_down(Order()) == "teardown.refused"


def test_a_box_that_vanished_by_itself_is_no_teardown_of_ours(world):
    """The platform says that it is gone, and nobody here approved that: what was on it stays unknown."""
    world.landlord.gone, world.box.reachable = True, False
    assert world.tear_down(Order()) == "teardown.refused"
    assert world.lease.open
    assert intents(world) == 0


def test_a_run_of_an_earlier_lease_that_is_still_on_the_box_is_judged_too(new_world):
    """A person said the first lease was stopped, and the box lived on, with results nobody brought home."""
    world = new_world()
    world.end_run(world.start_run())
    world.link("down")
    assert world.say_stopped()
    world.rent_again(same_box=True)
    assert world.tear_down(Order()) == "teardown.refused"
    world.bring_home("toy-1")
    assert world.tear_down(Order()) == "gone"


def test_a_receipt_for_an_earlier_promise_does_not_count(world):
    """The weights came home as bytes; now the job file says that they must load. Nobody has proven that."""
    world.mend_promise("toy-1")
    assert world.tear_down(Order()) == "teardown.refused"
    world.bring_home("toy-1")
    assert world.tear_down(Order()) == "gone"


def test_a_promise_mended_back_is_proven_again(world):
    world.mend_promise("toy-1")
    world.mend_promise("toy-1")
    assert world.tear_down(Order()) == "gone"


def test_a_promise_mended_while_a_person_thinks_stops_it(world):
    assert world.tear_down(Order(meanwhile=lambda: world.mend_promise("toy-1"))) == "teardown.refused"


def test_a_run_that_vanished_before_it_was_home_must_be_waived(world):
    second_run_vanished(world)
    assert world.tear_down(Order()) == "teardown.refused"
    world.waive("toy-2", "main")
    assert world.tear_down(Order()) == "gone"


def test_a_refusal_says_what_was_seen_and_what_to_do(world):
    alive(world)
    with pytest.raises(Refusal) as caught:
        teardown.tear_down(
            world.home, world.lease, teardown.Wanted(), world.landlord, lambda plan: pytest.fail("asked"), silent
        )
    assert "pid 4711" in caught.value.seen
    assert "lease stop toy-1" in caught.value.hint


# ---------------------------------------------------------------- the yes


@pytest.mark.parametrize("flaw", [flaw for flaw in FLAWS if flaw not in ("old", "person says no")])
def test_a_yes_to_something_else_is_not_one(world, flaw):
    assert world.tear_down(Order(flaw=flaw)) == "approval.refused"
    assert (world.landlord.acts, intents(world)) == ([], 0)


def test_a_yes_that_took_too_long_is_none(world):
    def wait() -> None:
        world.clock.now += APPROVAL_LIFE_S + 1

    assert world.tear_down(Order(meanwhile=wait)) == "approval.refused"
    assert world.tear_down(Order()) == "gone"


def test_a_waiver_while_a_person_thinks_needs_a_new_yes(world):
    run = world.start_run()
    world.end_run(run, "failed")
    world.waive(run, "main")

    def once_more() -> None:
        world.tamper_with_box(run, "main", "new")
        world.waive(run, "main")

    assert world.tear_down(Order(meanwhile=once_more)) == "approval.refused"
    assert world.tear_down(Order()) == "gone"


def test_a_yes_for_the_results_of_yesterday_does_not_cover_those_of_today(world):
    world.tear_down(Order(meanwhile=lambda: link_down(world)))
    world.link("up")
    world.tamper_with_box("toy-1", "main", "grow")
    world.bring_home("toy-1")
    assert world.tear_down(Order(flaw="old")) == "approval.refused"


def test_an_unused_yes_of_minutes_ago_still_covers_the_same_act(world):
    assert world.tear_down(Order(meanwhile=lambda: link_down(world))) == "teardown.refused"
    world.link("up")
    world.clock.now += 60
    assert world.tear_down(Order(flaw="old")) == "gone"


def test_a_yes_to_the_first_lease_does_not_open_the_second(world):
    assert world.tear_down(Order()) == "gone"
    world.rent_again(same_box=False)
    assert world.tear_down(Order(flaw="old")) == "approval.refused"


# ---------------------------------------------------------------- killed in between


def test_a_crash_before_the_act_is_continued_without_a_second_yes(world):
    assert world.tear_down(Order(behaviour="crash before")) == "crash"
    assert books.pending_intent(world.home.ledger, world.lease.id) is not None
    world.clock.now += APPROVAL_LIFE_S
    assert world.tear_down(Order()) == "gone"
    assert (world.seen["approval asked for"], intents(world), len(world.landlord.acts)) == (1, 1, 2)


@pytest.mark.parametrize("later_s", [APPROVAL_LIFE_S + 1, 400 * 86400, -1])
def test_a_crash_before_the_act_is_a_question_again_once_its_yes_expired(world, later_s):
    assert world.tear_down(Order(behaviour="crash before")) == "crash"
    world.clock.now += later_s
    assert world.tear_down(Order(flaw="person says no")) == "approval.not_given"
    assert len(world.landlord.acts) == 1
    assert world.tear_down(Order()) == "gone"
    assert (world.seen["approval asked for"], intents(world), len(world.landlord.acts)) == (3, 2, 2)


def test_what_the_platform_reports_gone_is_recorded_after_its_yes_expired(world):
    assert world.tear_down(Order(behaviour="crash after")) == "crash"
    world.clock.now += 400 * 86400
    assert world.tear_down(Order(flaw="person says no")) == "gone"
    assert (world.seen["approval asked for"], len(world.landlord.acts)) == (1, 1)


def test_a_crash_after_the_act_is_written_down_without_acting_again(world):
    assert world.tear_down(Order(behaviour="crash after")) == "crash"
    assert world.lease.open
    assert world.tear_down(Order()) == "gone"
    assert (world.seen["approval asked for"], len(world.landlord.acts)) == (1, 1)
    kinds = [event.kind for event in world.home.ledger.events(lease=world.lease.id)]
    assert kinds[-2:] == ["verb_done", "lease_closed"]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_an_intent_does_not_carry_over_trouble(world, trouble):
    world.tear_down(Order(behaviour="crash before"))
    trouble(world)
    assert world.tear_down(Order()) == "teardown.refused"
    assert len(world.landlord.acts) == 1


def test_an_intent_does_not_cover_other_evidence(world):
    world.tear_down(Order(behaviour="crash before"))
    world.tamper_with_box("toy-1", "main", "grow")
    world.bring_home("toy-1")
    assert world.tear_down(Order(flaw="person says no")) == "approval.not_given"
    assert world.tear_down(Order()) == "gone"
    assert intents(world) == 2


def test_an_end_that_is_not_known_stays_open_and_is_asked_for_again(world):
    assert world.tear_down(Order(behaviour="unknown")) == "unknown"
    assert world.lease.open
    assert world.tear_down(Order(behaviour="unknown")) == "unknown"
    assert world.tear_down(Order()) == "gone"
    assert (world.seen["approval asked for"], len(world.landlord.acts)) == (1, 3)


def test_steps_for_a_person_are_told_again_only_after_a_new_yes(world):
    assert world.tear_down(Order(behaviour="asked")) == "asked"
    assert world.lease.open
    assert world.tear_down(Order(flaw="person says no", behaviour="asked")) == "approval.not_given"
    assert len(world.landlord.acts) == 1
    assert world.tear_down(Order(behaviour="asked")) == "asked"
    assert (world.seen["approval asked for"], len(world.landlord.acts)) == (3, 2)


def test_an_intent_ends_with_its_lease(world):
    world.tear_down(Order(behaviour="crash before"))
    world.link("down")
    assert world.say_stopped()
    world.rent_again(same_box=True)
    assert world.tear_down(Order(flaw="person says no")) == "approval.not_given"
