"""What home may ask, and what the box answers: the same over every transport."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.errors import BoxError, Refusal
from leasehold.kit.files.code_tree import tree_hash, tree_text
from leasehold.kit.files.manifest import encode, parse
from leasehold.platforms.engines.caretaker.engine import CaretakerEngine
from tests.contract.doors import (
    CODE,
    RESULT,
    RUN,
    WAITS,
    Code,
    Door,
    laid_out,
    let_go,
    plan_of,
    prints,
    seal,
    wait_end,
)  # fmt: skip
from tests.support.lives import eventually

KINDS = [
    "run_opened", "attempt_starting", "attempt_started", "attempt_ended", "stage_passed", "cell_sealed",
    "cell_finished", "run_finished",
]  # fmt: skip


def refusal(engine: CaretakerEngine, op: str, **args: object) -> str:
    with pytest.raises(BoxError) as caught:
        engine.wire.ask(op, **args)
    return caught.value.code


# ---------------------------------------------------------------- code


def test_probe_says_where_and_how_full(door: Door) -> None:
    seen = door.engine().box.probe()
    assert (seen["root"], seen["system"]) == (door.place, "Linux")
    assert seen["free_bytes"] > 0
    assert seen["free_inodes"] >= 0
    assert seen["now_unix"] > 1_700_000_000


def test_code_is_there_once_it_was_brought_and_is_brought_once(door: Door, tmp_path: Path) -> None:
    engine = door.engine()
    assert engine.wire.ask("have_tree", tree=CODE.sha256) == {"have": False}
    assert engine.uploads.push(CODE)
    assert not engine.uploads.push(CODE)
    assert laid_out(door, CODE, tmp_path / "copy") == CODE.files


def lists(door: Door) -> set[str]:
    """Name the trees that are on the box whole."""
    return {path.stem for path in (door.root / "trees").glob("*.list")}


def test_bringing_the_same_code_twice_at_once_leaves_one_whole_tree(door: Door) -> None:
    big = Code({"a": b"a" * 3_000_000, "b": b"b" * 3_000_000})
    engine = door.engine()
    answers: list[object] = []
    homes = [threading.Thread(target=lambda: answers.append(engine.uploads.push(big))) for _ in range(3)]
    for home in homes:
        home.start()
    for home in homes:
        home.join()
    assert len(answers) == 3
    assert lists(door) == {big.sha256}


def test_code_that_arrives_different_is_refused_and_not_kept(door: Door) -> None:
    engine = door.engine()
    with pytest.raises(BoxError) as caught:
        engine.uploads.push(Changed(CODE.files))
    assert caught.value.code == "code.tree_differs"
    assert lists(door) == set()
    assert engine.uploads.push(CODE)


class Changed(Code):
    """Code that changes between its hashing and its sending."""

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """As many bytes, and other ones."""
        yield b"~" * int(entry["bytes"])


def test_only_what_the_box_lacks_travels(door: Door, tmp_path: Path) -> None:
    engine = door.engine()
    files = {f"pkg/{number}.py": b"%d" % number * 50 for number in range(30)}
    assert engine.uploads.push(Code(files)).files == 30
    changed = Code({**files, "pkg/7.py": b"seven", "copy.py": files["pkg/8.py"], "empty": b""})
    pushed = engine.uploads.push(changed)
    assert (pushed.files, pushed.bytes) == (2, 5)
    assert laid_out(door, changed, tmp_path / "copy") == changed.files
    assert not engine.uploads.push(Code(files)), "the older tree is still whole"


def test_what_was_edited_goes_along_unasked_in_one_request(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = door.engine()
    files = {f"{number}.py": b"%d" % number * 50 for number in range(9)}
    engine.uploads.push(Code(files))
    now = {**files, "7.py": b"seven"}
    edited = Code(now, [entry for entry in Code(now).entries if entry["path"] == "7.py"])
    asked: list[str] = []
    stream = engine.wire.stream

    def watched(op: str, *rest: Any, **args: Any) -> Any:
        asked.append(op)
        return stream(op, *rest, **args)

    monkeypatch.setattr(engine.wire, "stream", watched)
    pushed = engine.uploads.push(edited)
    assert (pushed.new, pushed.files, pushed.bytes, asked) == (True, 1, 5, ["want_tree"])
    assert laid_out(door, edited, tmp_path / "copy") == edited.files


def blob(door: Door, content: bytes) -> Path:
    """Where a code file with this content lies."""
    name = hashlib.sha256(content).hexdigest()
    return door.root / "blobs" / name[:2] / name


def test_a_file_spoiled_on_the_box_never_reaches_a_run_and_is_resent(door: Door) -> None:
    engine = door.engine()
    engine.uploads.push(CODE)
    blob(door, CODE.files["pkg/data.txt"]).write_bytes(b"y" * 1000)
    with pytest.raises(BoxError) as caught:
        engine.work.start(plan_of(RESULT), "home")
    assert caught.value.code == "code.tree_differs"
    assert not list((door.root / "active").glob("*/work/*"))
    assert engine.uploads.push(CODE).files == 1
    engine.work.start(plan_of(RESULT), "home")
    assert wait_end(engine)["state"] == "finished"


def test_what_a_power_cut_left_empty_is_sent_again_by_one_push(door: Door) -> None:
    engine = door.engine()
    engine.uploads.push(CODE)
    sizes = {path: len(content) for path, content in CODE.files.items() if content}
    for path in sizes:
        blob(door, CODE.files[path]).write_bytes(b"")
    with pytest.raises(BoxError):
        engine.work.start(plan_of(RESULT), "home")
    assert engine.uploads.push(CODE).files == len({CODE.files[path] for path in sizes})
    engine.work.start(plan_of(RESULT), "home")
    assert wait_end(engine)["state"] == "finished"


def test_a_cut_push_sends_only_the_rest(door: Door) -> None:
    files = {"a": os.urandom(3_000_000), "b": os.urandom(3_000_000), "c": b"c" * 300_000}
    first = door.engine()
    with pytest.raises(ZeroDivisionError):
        first.uploads.push(Breaking(files))
    assert eventually(lambda: any(len(path.name) == 64 for path in (door.root / "blobs").rglob("*")))
    first.close()
    pushed = door.engine().uploads.push(Code(files))
    assert 1 <= pushed.files < 3


class Breaking(Code):
    """Code whose home dies while it sends the last file."""

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """Some bytes, then the end."""
        if entry["path"] in ("c", "299.py"):
            raise ZeroDivisionError
        yield self.files[entry["path"]]


MANY = {f"{number:03}.py": os.urandom(4000) for number in range(300)}


def in_blobs(door: Door, pattern: str = "*") -> list[Path]:
    return [path for path in (door.root / "blobs").rglob(pattern) if path.is_file()]


def test_many_small_files_lie_in_few_and_every_run_has_them_apart(door: Door, tmp_path: Path) -> None:
    engine = door.engine()
    code = Code(MANY)
    assert engine.uploads.push(code).files == 300
    assert len(in_blobs(door)) < 20, "one is apart for every frame that ends within it"
    assert laid_out(door, code, tmp_path / "copy") == MANY
    edited = Code({**MANY, "007.py": b"seven"})
    assert engine.uploads.push(edited).files == 1
    assert laid_out(door, edited, tmp_path / "again") == edited.files


def test_text_is_packed_on_a_long_way_and_noise_is_not(door: Door, tmp_path: Path) -> None:
    engine = door.engine()
    engine.wire.quickest_s = 0.08
    said: list[int] = []
    real = engine.wire.stream

    def weighed(op: str, body: Any = (), **args: Any) -> Any:
        def parts() -> Iterator[Any]:
            for part in body:
                said.append(len(part) if op == "put_tree" and isinstance(part, bytes) else 0)
                yield part

        return real(op, parts(), **args)

    engine.wire.stream = weighed  # type: ignore[method-assign]
    text = Code({f"{number:03}.py": b"step %d\n" % number * 500 for number in range(300)})
    engine.uploads.push(text)
    assert 0 < sum(said) < 300_000
    said.clear()
    engine.uploads.push(Code(MANY))
    assert sum(said) == 300 * 4000
    for number, code in enumerate((text, Code(MANY))):
        assert laid_out(door, code, tmp_path / str(number)) == code.files


def test_a_cut_push_of_many_small_files_sends_only_the_rest(door: Door, tmp_path: Path) -> None:
    first = door.engine()
    with pytest.raises(ZeroDivisionError):
        first.uploads.push(Breaking(MANY))
    assert eventually(lambda: in_blobs(door, "*.pack")), "some of it is there"
    first.close()
    assert eventually(lambda: in_blobs(door, "*.json")), "what came counts, though the rest did not"
    pushed = door.engine().uploads.push(Code(MANY))
    assert 1 <= pushed.files < 300
    assert laid_out(door, Code(MANY), tmp_path / "copy") == MANY


def test_a_spoiled_pack_never_reaches_a_run_and_comes_again(door: Door) -> None:
    engine, code = door.engine(), Code({**MANY, **CODE.files})
    engine.uploads.push(code)
    (pack,) = in_blobs(door, "*.pack")
    whole = pack.read_bytes()
    pack.write_bytes(whole[:5000] + b"~~~~" + whole[5004:])
    plan = replace(plan_of(RESULT), tree=code.sha256)
    with pytest.raises(BoxError) as caught:
        engine.work.start(plan, "home")
    assert caught.value.code == "code.tree_differs"
    assert not list((door.root / "active").glob("*/work/*"))
    assert engine.uploads.push(code).files > 200
    engine.work.start(plan, "home")
    assert wait_end(engine)["state"] == "finished"


def test_pruning_keeps_what_an_unfinished_run_uses(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    trees = [Code({"n": b"%d" % number}) for number in range(5)]
    for code in trees:
        engine.uploads.push(code)
    assert engine.uploads.prune(dry_run=False)["trees"] == [], "all of them are young"
    names = {CODE.sha256, *(code.sha256 for code in trees)}
    assert lists(door) == names
    let_go(door)
    wait_end(engine)


@pytest.mark.parametrize(
    "files", [{"a": b"1", "a/b": b"2"}, {"a/b/c": b"1", "a": b"2"}], ids=["a file as a folder", "the other order"]
)
def test_code_whose_files_want_one_place_is_refused(door: Door, files: dict[str, bytes]) -> None:
    with pytest.raises(BoxError) as caught:
        door.engine().uploads.push(Code(files))
    assert caught.value.code == "code.unsafe_path"


UNSAFE: list[dict[str, Any]] = [
    {"path": "../out"},
    {"path": "/etc/out"},
    {"path": "a/../../out"},
    {"path": ""},
    {"path": "link", "link": "/etc/passwd"},
    {"path": "link", "link": "../../out"},
]


class Unsafe:
    """A tree with one entry that must not be made."""

    changed = ()

    def __init__(self, head: dict[str, Any]) -> None:
        content = {} if "link" in head else {"bytes": 1, "sha256": "0" * 64}
        self.entries = [{**head, **content}]
        self.sha256, self.text = tree_hash(self.entries), tree_text(self.entries)

    def read(self, entry: dict[str, Any]) -> Iterator[bytes]:
        """Never asked for."""
        raise AssertionError(entry)


@pytest.mark.parametrize("head", UNSAFE, ids=lambda head: "->".join(head.values()) or "empty")
def test_code_that_would_leave_its_tree_is_refused(door: Door, head: dict[str, str]) -> None:
    engine = door.engine()
    with pytest.raises(BoxError) as caught:
        engine.uploads.push(Unsafe(head))
    assert caught.value.code == "code.unsafe_path"
    assert os.listdir(door.root / "trees") == ["lock"]


# ---------------------------------------------------------------- a life


def test_a_run_lives_and_its_journal_log_and_results_can_be_read(door: Door) -> None:
    engine = door.start(plan_of("echo a line; cat pkg/data.txt >&2; " + RESULT))
    seen = wait_end(engine)
    assert (seen["state"], seen["cells"]["main"]["code"], seen["cells"]["main"]["attempt"]) == ("finished", 0, 1)
    batches = list(engine.observe.events(RUN, 0, 0))
    events = [event for batch in batches for event in batch["events"]]
    assert [event["k"] for event in events] == KINDS
    assert batches[-1]["offset"] == seen["offset"]
    assert b"".join(engine.observe.tail(RUN, "main", 1, 0, 0)) == b"a line\n" + b"x" * 1000
    assert b"".join(engine.observe.tail(RUN, "main", 1, 7, 0)) == b"x" * 1000
    assert b"".join(engine.ranges.get(RUN, "out", "main", "result.txt")) == b"done"
    assert b"".join(engine.ranges.get(RUN, "out", "main", "result.txt", 2)) == b"ne"
    assert [run["run"] for run in engine.observe.runs()] == [RUN]


def test_events_from_an_offset_on_are_those_not_yet_read(door: Door) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    first = next(iter(engine.observe.events(RUN, 0, 0)))
    line = len(json.dumps(first["events"][0], separators=(",", ":"), ensure_ascii=False).encode()) + 1
    rest = [event["k"] for batch in engine.observe.events(RUN, line, 0) for event in batch["events"]]
    assert rest == KINDS[1:]
    assert [batch["events"] for batch in engine.observe.events(RUN, first["offset"], 0)] == [[]]


def test_following_sends_events_log_and_beats_and_ends_with_the_run(door: Door) -> None:
    engine = door.start(plan_of("echo first; " + WAITS + "echo last; " + RESULT))
    kinds: list[str] = []
    log, beats = b"", 0
    for item in engine.observe.follow(RUN, 0, {}):
        if isinstance(item, bytes):
            log += item
        elif "events" in item:
            kinds += [event["k"] for event in item["events"]]
        elif "beat_unix" in item:
            beats += 1
        if log == b"first\n":
            let_go(door)
    assert (kinds, log) == (KINDS, b"first\nlast\n")
    assert beats >= 1


def test_following_again_from_where_one_was_repeats_nothing(door: Door) -> None:
    engine = door.start(plan_of("echo some words; " + RESULT))
    seen = wait_end(engine)
    again = list(engine.observe.follow(RUN, seen["offset"], {"main/1": len("some words\n")}))
    assert [item for item in again if isinstance(item, bytes) or "events" in item] == []


def test_tail_follows_an_attempt_to_its_end(door: Door) -> None:
    engine = door.start(plan_of("echo first; " + WAITS + "echo last; " + RESULT))
    said = b""
    for chunk in engine.observe.tail(RUN, "main", 1, 0, 60):
        said += chunk
        let_go(door)
    assert said == b"first\nlast\n"


def test_starting_twice_attaches_to_the_one_run(door: Door) -> None:
    plan = plan_of(WAITS + RESULT)
    engine = door.start(plan)
    again = engine.work.start(plan, "another home")
    assert (again["did"], again["holder"]["home"]) == ("attached", "a home")
    let_go(door)
    assert wait_end(engine)["cells"]["main"]["attempt"] == 1
    assert engine.work.start(plan, "a home")["did"] == "attached"


def test_a_run_that_ended_badly_resumes_only_from_the_state_that_was_seen(door: Door) -> None:
    plan = plan_of('if [ "$LEASE_ATTEMPT" = 1 ]; then exit 17; fi; ' + RESULT)
    engine = door.start(plan)
    seen = wait_end(engine)
    assert (seen["state"], seen["cells"]["main"]["code"]) == ("failed", 17)
    assert engine.work.resume(RUN, seen["seq"] - 1, "a home")["did"] == "attached"
    assert engine.work.start(plan, "a home")["did"] == "attached"
    resumed = engine.work.resume(RUN, seen["seq"], "other home")
    assert resumed["did"] == "resumed"
    ended = wait_end(engine)
    assert (ended["state"], ended["cells"]["main"]["attempt"]) == ("finished", 2)
    assert (ended["holder"]["home"], ended["holder"]["epoch"]) == ("other home", 2)
    assert engine.work.resume(RUN, ended["seq"], "a home")["did"] == "attached"


def test_stopping_ends_a_run_once_and_a_run_that_ended_stays_as_it_is(door: Door) -> None:
    engine = door.start(plan_of("echo up; " + WAITS + RESULT))
    assert eventually(lambda: engine.observe.look(RUN)["cells"]["main"]["state"] == "running")
    assert engine.work.stop(RUN, {"id": "one", "by": "me", "home": "a home", "grace_s": 60})["did"] == "asked"
    seen = wait_end(engine)
    assert (seen["state"], seen["cells"]["main"]["signal"]) == ("stopped", 15)
    assert engine.work.stop(RUN, {"id": "two", "by": "me", "home": "a home", "grace_s": 5})["did"] == "nothing"


# ---------------------------------------------------------------- two homes


def taken_from(call: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as caught:
        call()
    assert caught.value.code == "run.taken_over"
    return caught.value.message


def test_a_home_that_does_not_hold_a_run_attaches_but_ends_nothing(door: Door) -> None:
    plan = plan_of(WAITS + RESULT)
    engine = door.start(plan)
    budget = {"budget": {"limit": "1", "currency": "USD", "spent": "0", "per_hour": "0"}}
    assert engine.work.start(plan, "other home", budget)["did"] == "attached"
    assert not (door.root / "active" / RUN / "budget.json").exists(), "another home's budget is not this run's"
    assert "held by home a home since" in taken_from(lambda: engine.work.stop(RUN, {"id": "x", "home": "other home"}))
    taken_from(lambda: engine.hold.hush(RUN, "other home"))
    taken_from(lambda: engine.power.power_off(["shutdown"], "other home"))
    let_go(door)
    assert wait_end(engine)["state"] == "finished"


def test_whoever_takes_over_may_end_things_and_the_old_home_may_not(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    seen = engine.hold.take_over(RUN, 1, "other home", {"who": "her on laptop"})
    assert (seen["holder"]["home"], seen["holder"]["epoch"]) == ("other home", 2)
    said = taken_from(lambda: engine.work.stop(RUN, {"id": "x", "home": "a home"}))
    assert said.startswith(RUN + " was taken over by her on laptop at 20")
    assert engine.hold.take_over(RUN, 99, "other home", {})["holder"]["epoch"] == 2, "twice is once"
    assert engine.work.stop(RUN, {"id": "y", "home": "other home", "grace_s": 5})["did"] == "asked"
    ended = wait_end(engine)
    taken_from(lambda: engine.work.resume(RUN, ended["seq"], "a home"))
    assert engine.observe.look(RUN)["state"] == "stopped"
    assert engine.hold.take_over(RUN, 2, "a home", {"who": "him"})["holder"]["epoch"] == 3
    let_go(door)
    assert engine.work.resume(RUN, ended["seq"], "a home")["did"] == "resumed"
    assert wait_end(engine)["state"] == "finished"


def test_of_many_homes_that_take_over_at_once_one_does(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    engines = [door.engine() for _ in range(4)]
    for epoch in range(1, 6):
        won: list[str] = []
        lost: list[str] = []

        def take(number: int, epoch: int = epoch, won: list[str] = won, lost: list[str] = lost) -> None:
            name = f"home {epoch}-{number}"
            try:
                engines[number].hold.take_over(RUN, epoch, name, {})
                won.append(name)
            except Refusal:
                lost.append(name)

        homes = [threading.Thread(target=take, args=(number,)) for number in range(len(engines))]
        for home in homes:
            home.start()
        for home in homes:
            home.join()
        assert (len(won), len(lost)) == (1, 3)
        holder = engine.observe.look(RUN)["holder"]
        assert (holder["home"], holder["epoch"]) == (won[0], epoch + 1)
        taken_from(lambda lost=lost: engine.work.stop(RUN, {"id": "x", "home": lost[0]}))
    let_go(door)
    wait_end(engine)


# ---------------------------------------------------------------- what is sealed


def test_the_manifest_lists_every_promised_file_with_its_hash(door: Door) -> None:
    script = 'mkdir -p "$LEASE_OUT/a/b"; printf one > "$LEASE_OUT/result.txt"; printf two > "$LEASE_OUT/a/b/c.bin"; '
    engine = door.start(plan_of(script + 'printf no > "$LEASE_OUT/other"', "result.txt", "**/*.bin"))
    wait_end(engine)
    data = seal(engine)
    sealed = parse(json.loads(data), RUN)
    assert encode(sealed) == data
    assert [(entry["path"], entry["bytes"]) for entry in sealed["cells"]["main"]] == [
        ("a/b/c.bin", 3),
        ("result.txt", 3),
    ]
    present, rest = prints(engine)
    kept = [{key: entry[key] for key in entry if key != "sha256"} for entry in sealed["cells"]["main"]]
    assert present == {"main": kept}
    assert (rest["alive"], [entry["path"] for entry in rest["other"]]) == ([], ["other"])
    assert rest["seen"]["state"] == "finished"


def test_a_promise_that_was_not_kept_cannot_be_sealed(door: Door) -> None:
    engine = door.start(plan_of("printf here > result.txt"))
    wait_end(engine)
    with pytest.raises(BoxError) as caught:
        seal(engine)
    assert caught.value.code == "artifact.unsealable"
    assert "LEASE_OUT" in caught.value.message, "the file lies beside the code: the commonest mistake is named"


def test_a_fingerprint_names_the_processes_that_still_live(door: Door) -> None:
    engine = door.start(plan_of(WAITS + RESULT))
    assert eventually(lambda: engine.observe.look(RUN)["cells"]["main"]["alive"])
    pid = engine.observe.look(RUN)["cells"]["main"]["pid"]
    assert pid in prints(engine)[1]["alive"]
    let_go(door)
    wait_end(engine)
    assert eventually(lambda: prints(engine)[1]["alive"] == [])


@pytest.mark.full
def test_very_many_artifacts_can_be_sealed_fingerprinted_and_listed(door: Door) -> None:
    count, name = 16000, "x" * 230
    script = f'cd "$LEASE_OUT"; i=0; while [ $i -lt {count} ]; do echo y > {name}$i; i=$((i+1)); done'
    engine = door.start(plan_of(script, "x*"))
    wait_end(engine)
    sealed = parse(json.loads(seal(engine)), RUN)
    present, _ = prints(engine)
    assert len(sealed["cells"]["main"]) == len(present["main"]) == len(engine.proof.salvageable(RUN, "main")) == count


def test_everything_a_cell_left_can_be_listed_for_salvage(door: Door) -> None:
    engine = door.start(plan_of('printf x > "$LEASE_OUT/promised"; printf yy > "$LEASE_OUT/extra"; exit 1', "promised"))
    wait_end(engine)
    listed = [(entry["path"], entry["bytes"]) for entry in engine.proof.salvageable(RUN, "main")]
    assert listed == [("extra", 2), ("promised", 1)]


# ---------------------------------------------------------------- refusals


def test_refusals_have_a_code_and_leave_the_wire_open(door: Door) -> None:
    engine = door.engine()
    assert refusal(engine, "fly") == "wire.unknown_op"
    for op in ("events", "tail", "follow", "manifest", "fingerprint", "get", "stop", "resume", "salvageable"):
        assert refusal(engine, op, run="never-1", cell="main") == "run.absent", op
    assert refusal(engine, "look", run="../escape") == "wire.bad_request"
    assert engine.observe.look("never-1")["state"] == "absent"
    assert not (door.root / "active" / "never-1").exists(), "looking leaves nothing behind"
    assert engine.box.probe()["system"]


def test_a_plan_that_is_damaged_different_or_without_its_code_is_refused(door: Door) -> None:
    engine = door.engine()
    plan = plan_of(RESULT)
    assert refusal(engine, "start", run=RUN, plan=plan.as_dict(), home="h") == "code.tree_missing"
    engine.uploads.push(CODE)
    damaged = {**plan.as_dict(), "attempts": 99}
    assert refusal(engine, "start", run=RUN, plan=damaged, home="h") == "run.plan_damaged"
    engine.work.start(plan, "h")
    wait_end(engine)
    other = plan_of("echo another job; " + RESULT)
    assert refusal(engine, "start", run=RUN, plan=other.as_dict(), home="h") == "run.plan_differs"


def test_arguments_that_are_no_counts_are_refused(door: Door) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    for bad in (-1, "1", 1.5, None):
        assert refusal(engine, "events", run=RUN, offset=bad) == "wire.bad_request"
        assert refusal(engine, "get", run=RUN, cell="main", path="result.txt", offset=bad) == "wire.bad_request"


# ---------------------------------------------------------------- side by side


def test_a_bulk_read_runs_beside_a_follow_on_one_wire(door: Door, tmp_path: Path) -> None:
    engine = door.start(plan_of("echo up; " + WAITS + "echo last; " + RESULT))
    followed: list[str] = []
    up = threading.Event()

    def follow() -> None:
        for item in engine.observe.follow(RUN, 0, {}):
            if isinstance(item, bytes):
                followed.append(item.decode())
                up.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert up.wait(60)
    with open(door.out() / "bulk", "wb") as file:
        file.truncate(48 << 20)
    got = 0
    for number, chunk in enumerate(engine.ranges.get(RUN, "out", "main", "bulk")):
        got += len(chunk)
        if number == 10:
            assert engine.box.probe()["system"], "a small question is answered between the chunks"
            let_go(door)
    follower.join(60)
    assert got == 48 << 20
    assert "".join(followed) == "up\nlast\n"


def test_many_questions_at_once_each_get_their_own_answer(door: Door) -> None:
    engine = door.start(plan_of('for i in 1 2 3 4 5 6 7 8; do echo $i$i$i > "$LEASE_OUT/f$i"; done', "f*"))
    wait_end(engine)
    answers: dict[int, bytes] = {}

    def read(number: int) -> None:
        for _ in range(10):
            answers[number] = b"".join(engine.ranges.get(RUN, "out", "main", f"f{number}"))

    readers = [threading.Thread(target=read, args=(number,)) for number in range(1, 9)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert answers == {number: b"%d%d%d\n" % (number, number, number) for number in range(1, 9)}


def test_a_reader_that_leaves_early_does_not_stop_the_others(door: Door) -> None:
    engine = door.start(plan_of(RESULT))
    wait_end(engine)
    with open(door.out() / "bulk", "wb") as file:
        file.truncate(200 << 20)
    chunks = engine.ranges.get(RUN, "out", "main", "bulk")
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert b"".join(engine.ranges.get(RUN, "out", "main", "result.txt")) == b"done"


def test_a_note_on_a_disk_is_left_found_and_taken_away(door: Door) -> None:
    engine = door.engine()
    name = "0123456789abcdef"
    assert engine.notes.find_note(door.place, name, 0)["text"] is None
    assert engine.notes.leave_note(door.place, name, "hello") == ""
    assert engine.notes.find_note(door.place, name, 0)["text"] == "hello"
    assert (engine.notes.drop_note(door.place, name), engine.notes.drop_note(door.place, name)) == ("", "")
    assert engine.notes.find_note(door.place, name, 0)["text"] is None


@pytest.mark.parametrize("name", ["", "../../../etc/passwd", "0123456789abcdef/x", "ABCDEF0123456789"])
@pytest.mark.parametrize("operation", ["leave_note", "find_note", "drop_note"])
def test_a_note_has_no_name_that_could_be_a_path(door: Door, operation: str, name: str) -> None:
    with pytest.raises(BoxError) as caught:
        door.open().ask(operation, path=door.place, name=name)
    assert caught.value.code == "wire.bad_request"


# ---------------------------------------------------------------- many files at once


def test_many_files_come_in_one_answer_and_what_is_not_there_is_left_out(door: Door) -> None:
    engine = door.start(plan_of("echo hello", "**"))
    wait_end(engine)
    log, record = "attempt-0001/log", "attempt-0001/exit.json"
    items = [
        ("run", "", "plan.json"), ("cells", "main", log), ("cells", "main", "attempt-0009/log"),
        ("cells", "main", "../../plan.json"), ("cells", "main", record),
    ]  # fmt: skip
    came: dict[int, bytes] = {}
    for number, chunk in engine.ranges.get_many(RUN, items):
        came[number] = came.get(number, b"") + chunk
    folder = door.root / "active" / RUN
    assert came == {
        0: (folder / "plan.json").read_bytes(),
        1: (folder / "cells/main" / log).read_bytes(),
        4: (folder / "cells/main" / record).read_bytes(),
    }


def test_results_are_no_area_of_many_files(door: Door) -> None:
    engine = door.start(plan_of("true", "**"))
    wait_end(engine)
    with pytest.raises(BoxError) as caught:
        list(engine.ranges.get_many(RUN, [("out", "main", "x")]))
    assert caught.value.code == "wire.bad_request"
