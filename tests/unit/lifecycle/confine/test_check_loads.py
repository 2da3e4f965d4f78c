"""Loads in confined processes: what each wall holds back, and that no child's end loses another's result."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.lifecycle.confine import check_loads as confine
from leasehold.lifecycle.confine.check_loads import LoadRequest, check_loads
from leasehold.lifecycle.confine.spawn import Child, converse
from tests.unit.kit.readers.forge import Tensor, called, checkpoint, finished, mapping, torch_zip

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[3] / "src"
LINUX = sys.platform.startswith("linux")
NO_TORCH = "/nonexistent/python"  # so that a torch installed here does not slow these tests


def written(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


@pytest.fixture
def good(tmp_path):
    return LoadRequest(written(tmp_path, "good.json", b'{"loss": 1}'), "json")


@pytest.fixture
def opaque_file(tmp_path):
    items = {"args": called("argparse.Namespace"), "w": Tensor().pickle()}
    return written(tmp_path, "opaque.pt", torch_zip(finished(mapping(items))))


def test_results_come_in_the_order_of_the_requests(tmp_path, good):
    bad = LoadRequest(written(tmp_path, "bad.json", b"{"), "json")
    absent = LoadRequest(str(tmp_path / "absent"), "json")
    csv = LoadRequest(written(tmp_path, "a.csv", b"a,b\n1,2\n"), "csv")
    results = check_loads([bad, good, absent, csv])
    assert [result.path for result in results] == [bad.path, good.path, absent.path, csv.path]
    assert [result.ok for result in results] == [False, True, False, True]
    assert "ends too early" in results[0].reason
    assert results[1].reading["keys"] == ["loss"]
    assert "cannot be opened" in results[2].reason


def test_no_requests_give_no_results():
    assert check_loads([]) == []


def test_files_of_odd_names_are_read(tmp_path, odd_name):
    path = tmp_path / odd_name
    path.write_bytes(b'{"a": 1}')
    assert check_loads([LoadRequest(str(path), "json")])[0].ok


def test_a_relative_path_means_the_callers_folder(tmp_path, monkeypatch, good):
    monkeypatch.chdir(tmp_path)
    assert check_loads([LoadRequest("good.json", "json")])[0].ok


def test_a_missing_required_key_fails_and_names_what_was_seen(good):
    result = check_loads([LoadRequest(good.path, "json", required_keys=("loss", "accuracy"))])[0]
    assert not result.ok
    assert "accuracy" in result.reason
    assert "seen: loss" in result.reason


def test_opaque_classes_fail_unless_the_job_allows_them(opaque_file):
    refused, allowed = check_loads(
        [LoadRequest(opaque_file, "torch"), LoadRequest(opaque_file, "torch", allow_opaque=True)], python=NO_TORCH
    )
    assert not refused.ok
    assert "argparse.Namespace" in refused.reason
    assert "allow_opaque: true" in refused.reason
    assert allowed.ok
    assert allowed.reading["opaque"] == ["argparse.Namespace"]


def test_an_unknown_kind_fails_its_own_result_only(good):
    results = check_loads([LoadRequest(good.path, "marshal"), good])
    assert [result.ok for result in results] == [False, True]
    assert "known: json" in results[0].reason


def test_a_reader_out_of_memory_fails_with_that_reason(tmp_path):
    path = written(tmp_path, "big.pt", torch_zip(finished(b"]" * 3_000_000)))
    result = check_loads([LoadRequest(path, "torch")], memory_bytes=100 * 1024 * 1024)[0]
    assert not result.ok
    assert "memory" in result.reason


@pytest.fixture
def only_for(monkeypatch):
    """Let the wall stand for one file, read alone: how long a good one takes is the machine's business."""
    true = confine._read_confined

    def stand(path):
        def read(readers, request, wall_s):
            return true(readers, request, wall_s if request.path == path else 600.0)

        monkeypatch.setattr(confine, "_read_confined", read)

    return stand


def test_a_reader_out_of_time_is_killed_and_says_so(tmp_path, good, only_for):
    path = written(tmp_path, "slow.pt", torch_zip(finished(b"N0" * 3_900_000 + b"N")))
    only_for(path)
    results = check_loads([LoadRequest(path, "torch"), good], wall_s=0.5)
    assert "longer than 0.5 s" in results[0].reason
    assert results[1].ok


# ---------------------------------------------------------------- walls


@pytest.mark.skipif(not LINUX, reason="these walls are Linux's")
def test_every_result_says_which_walls_were_reached(tmp_path, good):
    bad = LoadRequest(written(tmp_path, "bad.json", b"{"), "json")
    for result in check_loads([good, bad]):
        assert {"rlimits", "no_new_privs"} <= set(result.confinement)


@pytest.fixture
def escape(tmp_path):
    """Run the child that tries to get out; return what it reached and did."""

    def run():
        kept = written(tmp_path, "kept", b"whole")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            command = [sys.executable, "-I", "-S", "-B", str(HERE / "walled.py"), str(SOURCE), kept, port]
            answer = subprocess.run(command, env={}, cwd="/", capture_output=True, check=True)
        assert Path(kept).read_bytes() == b"whole"
        return json.loads(answer.stdout)

    return run


@pytest.mark.skipif(not LINUX, reason="these walls are Linux's")
def test_behind_the_walls_nothing_is_written_and_memory_is_bounded(escape):
    done = set(escape()["done"])
    assert not done & {"write", "allocate", "open many", "raise a limit"}


@pytest.mark.skipif(not LINUX or os.geteuid() == 0, reason="the kernel exempts root from RLIMIT_NPROC")
def test_behind_the_walls_no_process_and_no_thread_is_started(escape):
    assert not set(escape()["done"]) & {"fork", "thread"}


@pytest.mark.namespaces
def test_behind_the_walls_there_is_no_network(escape):
    outcome = escape()
    assert "no_network" in outcome["reached"]
    assert "connect" not in outcome["done"]


@pytest.mark.skipif(not LINUX, reason="these walls are Linux's")
def test_a_level_that_is_not_reached_is_not_claimed(escape):
    outcome = escape()
    assert ("no_network" in outcome["reached"]) == ("connect" not in outcome["done"])


def test_the_child_imports_nothing_from_outside_the_stdlib(good):
    """-S hides site-packages, so a stray import in a package's __init__ shows here."""
    assert check_loads([good])[0].ok


# ---------------------------------------------------------------- children that go wrong


def misbehave(what: str, wall_s: float = 60.0):
    child = Child([sys.executable, "-I", "-B", str(HERE / "misbehaving.py"), what], {}, wall_s, wall_s)
    return converse(child, {}, answers=1)


@pytest.mark.parametrize(
    "what, ending",
    [
        ("crash", "killed by SIGSEGV"),
        ("quit_early", "status 3"),
        ("garble", "no answer"),
        ("say_no_object", "no answer"),
        ("nest", "no answer"),
        ("flood", "no answer"),
    ],
)
def test_a_child_that_fails_is_an_ending_in_words(what, ending):
    talk = misbehave(what)
    assert talk.answers == []
    assert talk.confinement == ("told",)
    assert ending in talk.ending


@pytest.mark.parametrize("what", ["hang", "close_and_hang"])
def test_a_child_that_hangs_is_killed(what, monkeypatch):
    monkeypatch.setattr("leasehold.lifecycle.confine.spawn._LAST_BREATH_S", 0.2)
    assert "was killed" in misbehave(what, wall_s=0.5).ending


def test_a_program_that_is_not_there_is_an_ending_in_words():
    talk = converse(Child(["/nonexistent/python"], {}, 1, 1), {}, answers=1)
    assert "could not be started" in talk.ending


@pytest.mark.parametrize("forks", [True, False], ids=["forked", "started"])
@pytest.mark.parametrize("what", ["lie", "lie_less", "crash", "garble", "quit_early", "slay_parent"])
def test_a_broken_reader_process_fails_its_own_result_only(tmp_path, monkeypatch, good, what, forks):
    """One file breaks its reader; the others are read by processes of their own."""
    (tmp_path / "reader_child.py").symlink_to(HERE / "fragile_child.py")
    if forks:
        (tmp_path / "fork_server.py").symlink_to(Path(confine.__file__).with_name("fork_server.py"))
    elif what == "slay_parent":
        pytest.skip("its parent would be this test")
    monkeypatch.setattr(confine, "_HERE", str(tmp_path))
    monkeypatch.setattr(confine, "_READERS_AT_ONCE", 1)
    evil = LoadRequest(written(tmp_path, f"evil-{what}.json", b"{}"), "json")
    results = check_loads([good, evil, good])
    assert [result.ok for result in results] == [True, False, True]
    assert "confined reader" in results[1].reason


def test_a_forked_reader_that_hangs_is_killed_and_the_next_file_is_read(tmp_path, monkeypatch, good, only_for):
    (tmp_path / "reader_child.py").symlink_to(HERE / "fragile_child.py")
    (tmp_path / "fork_server.py").symlink_to(Path(confine.__file__).with_name("fork_server.py"))
    monkeypatch.setattr(confine, "_HERE", str(tmp_path))
    monkeypatch.setattr(confine, "_READERS_AT_ONCE", 1)
    evil = LoadRequest(written(tmp_path, "evil-hang.json", b"{}"), "json")
    only_for(evil.path)
    results = check_loads([evil, good], wall_s=2.0)
    assert "took longer than 2 s and was killed" in results[0].reason
    assert results[1].ok


def test_many_files_are_read_behind_every_wall(tmp_path):
    files = [LoadRequest(written(tmp_path, f"{number}.json", b"{}"), "json") for number in range(40)]
    results = check_loads(files)
    assert [result.path for result in results] == [each.path for each in files]
    assert {result.confinement for result in results} == {check_loads(files[:1])[0].confinement}


def mixed_files(folder: Path) -> list[LoadRequest]:
    """Small and larger files of many kinds, good and bad, absent and empty, in no order."""
    contents = {
        "json": [b'{"a": 1}', b"{", b"", b'{"b": 2}', b'"' + b"x" * 100_000 + b'"', b"\xff"],
        "jsonl": [b'{"a": 1}\n{"a": 2}\n', b"{}\n{\n"],
        "csv": [b"a,b\n1,2\n", b"a,b\n1\n"],
        "bytes": [b"x", b"", b"y" * 70_000],
        "npy": [b"\x93NUMPY", b"none"],
        "torch": [checkpoint(), b"PK"],
        "unheard": [b"x"],
    }
    requests = [LoadRequest(str(folder / "absent"), "json", required_keys=("a",)), LoadRequest(str(folder), "bytes")]
    for turn in range(7):
        for kind, found in contents.items():
            for number, content in enumerate(found):
                path = written(folder, f"{kind}-{number}-{turn}", content)
                requests.append(LoadRequest(path, kind, required_keys=("a",) if turn % 2 else ()))
    return requests


def test_what_is_read_together_is_judged_as_if_it_were_read_alone(tmp_path, monkeypatch):
    files = mixed_files(tmp_path)
    together = check_loads(files, python=NO_TORCH)
    by_kind = sorted(files, key=lambda each: each.kind)
    grouped = {result.path: result for result in check_loads(by_kind, python=NO_TORCH)}
    monkeypatch.setattr(confine, "_TOGETHER", 1)
    alone = check_loads(files, python=NO_TORCH)
    assert together == alone
    assert [grouped[result.path] for result in alone] == alone
    assert {result.ok for result in alone} == {True, False}


def test_small_files_of_one_kind_share_a_reader_and_no_others_do(tmp_path):
    kinds = ["json"] * 70 + ["csv"] + ["torch"] * 2 + ["json"] * 2
    files = [LoadRequest(written(tmp_path, f"{number:02d}", b"x"), kind) for number, kind in enumerate(kinds)]
    files += [LoadRequest(written(tmp_path, "large", b"x" * 70_000), "json"), LoadRequest(str(tmp_path), "json")]
    most = min(32, (16 << 10) // (6 * len(files[0].path)))  # names count too: a long TMPDIR makes smaller groups
    shared = [most] * (70 // most) + [70 % most] * (70 % most > 0)
    assert [len(group) for group in confine._groups(files)] == [*shared, 1, 1, 1, 2, 1, 1]
    long = [LoadRequest(str(tmp_path / ("n" * 200) / str(number)), "json") for number in range(9)]
    (tmp_path / ("n" * 200)).mkdir()
    for each in long:
        Path(each.path).write_bytes(b"{}")
    groups = confine._groups(long * 9)
    assert sum(groups, []) == list(range(81))
    assert max(len(group) for group in groups) * 6 * len(long[0].path) <= 16 << 10


@pytest.mark.parametrize("what", ["lie", "crash", "garble", "quit_early", "slay_parent", "flood"])
def test_a_file_that_breaks_a_shared_reader_costs_no_other_its_result(tmp_path, monkeypatch, what):
    (tmp_path / "reader_child.py").symlink_to(HERE / "fragile_child.py")
    (tmp_path / "fork_server.py").symlink_to(Path(confine.__file__).with_name("fork_server.py"))
    monkeypatch.setattr(confine, "_HERE", str(tmp_path))
    names = [f"{number}.json" for number in range(20)]
    names[7] = f"evil-{what}.json"
    results = check_loads([LoadRequest(written(tmp_path, name, b'{"a": 1}'), "json") for name in names])
    assert [result.ok for result in results] == [name == f"{number}.json" for number, name in enumerate(names)]
    assert all(result.confinement for result in results if result.ok)


# ---------------------------------------------------------------- torch itself


@pytest.fixture(scope="module")
def torch_python(tmp_path_factory):
    """An interpreter whose torch is the pretended one."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "torch.py").write_bytes((HERE / "pretend_torch.py").read_bytes())
    return str(folder / "bin" / "python")


def torch_requests(folder: Path, *names: str, allow_opaque: bool = False) -> list[LoadRequest]:
    return [LoadRequest(written(folder, name, checkpoint()), "torch", allow_opaque) for name in names]


def test_torch_loads_what_the_reader_passed(tmp_path, torch_python):
    result = check_loads(torch_requests(tmp_path, "a.pt"), python=torch_python)[0]
    assert (result.ok, result.torch_load) == (True, "ok")


def test_torch_is_not_given_what_the_reader_refused(tmp_path, torch_python):
    broken = LoadRequest(written(tmp_path, "crash.pt", checkpoint()[:-1]), "torch")
    result = check_loads([broken], python=torch_python)[0]
    assert (result.ok, result.torch_load) == (False, "")


def test_a_crash_or_hang_of_torch_costs_only_the_file_it_was_on(tmp_path, torch_python):
    requests = torch_requests(tmp_path, "a.pt", "crash.pt", "b.pt", "hang.pt", "c.pt")
    results = check_loads(requests, python=torch_python, wall_s=5)
    assert [result.ok for result in results] == [True, False, True, False, True]
    assert "SIGKILL" in results[1].reason
    assert "longer than 5 s" in results[3].reason


def test_a_refusal_by_torch_fails_and_is_shown_without_its_advice(tmp_path, torch_python):
    policy, broken = check_loads(torch_requests(tmp_path, "policy.pt", "broken.pt"), python=torch_python)
    assert not policy.ok
    assert policy.torch_load == "refused: UnpicklingError: Unsupported global: GLOBAL my.Thing was not allowed."
    assert "allow_opaque: true" in policy.reason
    assert not broken.ok
    assert "PytorchStreamReader failed" in broken.reason


def test_where_opaque_is_allowed_a_refused_class_is_recorded(tmp_path, torch_python):
    requests = torch_requests(tmp_path, "policy.pt", "broken.pt", allow_opaque=True)
    policy, broken = check_loads(requests, python=torch_python)
    assert policy.ok
    assert "my.Thing" in policy.torch_load
    assert not broken.ok


def test_a_pickle_protocol_that_torch_does_not_read_is_recorded(tmp_path, torch_python):
    (found,) = check_loads(torch_requests(tmp_path, "protocol.pt"), python=torch_python)
    assert found.ok, found.reason
    assert found.torch_load.startswith("refused: UnpicklingError: Unsupported operand 149; weights_only reads what ")


def test_an_interpreter_without_torch_is_recorded(tmp_path, torch_python):
    packages = next(Path(torch_python).parents[1].glob("lib/python*/site-packages"))
    (packages / "torch.py").rename(tmp_path / "torch.py")
    try:
        result = check_loads(torch_requests(tmp_path, "a.pt"), python=torch_python)[0]
    finally:
        (tmp_path / "torch.py").rename(packages / "torch.py")
    assert (result.ok, result.torch_load) == (True, "torch not installed")


def test_an_interpreter_that_does_not_start_is_recorded(tmp_path):
    result = check_loads(torch_requests(tmp_path, "a.pt"), python=NO_TORCH)[0]
    assert result.ok
    assert "could not be started" in result.torch_load


def test_the_real_torch_loads_numpy_scalars_and_refuses_unknown_classes(tmp_path, opaque_file):
    torch, numpy = pytest.importorskip("torch"), pytest.importorskip("numpy")
    path = str(tmp_path / "a.pt")
    torch.save({"loss": numpy.float64(1.5), "curve": numpy.arange(3), "w": torch.nn.Parameter(torch.ones(2))}, path)
    plain, opaque = check_loads([LoadRequest(path, "torch"), LoadRequest(opaque_file, "torch", allow_opaque=True)])
    assert (plain.ok, plain.torch_load) == (True, "ok")
    assert opaque.ok
    assert "argparse.Namespace" in opaque.torch_load
