"""Job files: every complaint names the file and the key, and says what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.kit.canon import digest
from leasehold.lifecycle.resolve import read_job
from leasehold.model.job import LOADERS, Artifact, Job, parse_job
from tests.support.examples import MANY

GOOD = {"name": "toy", "run": "python train.py", "artifacts": {"best.pt": "torch"}}


def job(**change: object) -> dict[str, object]:
    return {key: value for key, value in {**GOOD, **change}.items() if value is not ...}


def refusal(value: object) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_job(value, "jobs/lease.yaml")
    error = caught.value
    assert error.code == "job.invalid"
    assert error.message.startswith("jobs/lease.yaml"), "every complaint names the file"
    assert error.hint
    return error


# ---------------------------------------------------------------- what parses


def test_the_smallest_job_has_defaults():
    assert parse_job(GOOD, "x") == Job("toy", "python train.py", (Artifact("best.pt", "torch"),), "", {}, 3)


def test_everything_a_job_can_say():
    value = job(
        smoke="python train.py --smoke",
        env={"SEED": 1, "LR": 0.5, "NAME": "中文\nzwei"},
        attempts=7,
        artifacts={"*.pt": {"loads": "torch", "keys": ["model"], "allow_opaque": True}, "m.json": None},
    )
    assert parse_job(value, "x") == Job(
        "toy",
        "python train.py",
        (Artifact("*.pt", "torch", ("model",), True), Artifact("m.json", "json")),
        "python train.py --smoke",
        {"SEED": "1", "LR": "0.5", "NAME": "中文\nzwei"},
        7,
    )


@pytest.mark.parametrize(
    "pattern, loads",
    [
        ("a.PT", "torch"),
        ("d/**/x.safetensors", "safetensors"),
        ("m.jsonl", "jsonl"),
        ("a.tar.gz", "bytes"),
        ("x", "bytes"),
        ("dir.pt/x", "bytes"),
    ],
)
def test_how_a_file_loads_is_guessed_from_its_name(pattern, loads):
    assert parse_job(job(artifacts=[pattern]), "x").artifacts == (Artifact(pattern, loads),)


def test_what_is_parsed_is_parsed_again_from_its_own_spelling():
    first = parse_job(job(env={"A": 1}, artifacts=["a.pt", "b/*.json"]), "x")
    spelled = first.as_dict()
    spelled["artifacts"] = {
        item["pattern"]: {key: item[key] for key in ("loads", "keys", "allow_opaque")} for item in spelled["artifacts"]
    }
    del spelled["smoke"]
    assert parse_job(spelled, "x") == first


# ---------------------------------------------------------------- what is refused, and in which words

BAD = {
    "not a mapping": (["a"], "a job is a mapping of keys", ""),
    "nothing": (None, "a job is a mapping of keys, not nothing", ""),
    "text": ("toy", "a job is a mapping of keys", ""),
    "no name": (job(name=...), ": name: ", ""),
    "name with a slash": (job(name="a/b"), ": name: ", ""),
    "name a number": (job(name=7), ": name: ", ""),
    "no run": (job(run=...), ": run: must be a command line, not nothing", ""),
    "run empty": (job(run="  "), ": run: must be a command line", ""),
    "run a list": (job(run=["python"]), ": run: must be a command line, not list", ""),
    "run with a nul": (job(run="a\0b"), ": run: holds a NUL", ""),
    "run that is not text": (job(run="echo \ud800"), ": run: ", ""),
    "smoke empty": (job(smoke=""), ": smoke: must be a command line", ""),
    "smoke null": (job(smoke=None), ": smoke: must be a command line, not nothing", ""),
    "no artifacts": (job(artifacts=...), ": artifacts: says what must come home", "metrics.json: json"),
    "artifacts empty": (job(artifacts={}), ": artifacts: says what must come home", "metrics.json: json"),
    "artifacts an empty list": (job(artifacts=[]), ": artifacts: says what must come home", ""),
    "artifacts text": (job(artifacts="best.pt"), ": artifacts: says what must come home", ""),
    "artifacts a list of numbers": (job(artifacts=[1]), ": artifacts: says what must come home", ""),
    "pattern absolute": (job(artifacts=["/out/best.pt"]), ": artifacts./out/best.pt: ", ""),
    "pattern escapes": (job(artifacts=["../best.pt"]), ": artifacts.../best.pt: ", ""),
    "pattern a number": (job(artifacts={7: "torch"}), ": artifacts.7: ", ""),
    "unknown loader": (job(artifacts={"a": "tensorflow"}), ": artifacts.a: nothing here loads 'tensorflow'", "known: "),
    "nearly a loader": (job(artifacts={"a": "tourch"}), ": artifacts.a: nothing here loads", "did you mean torch?"),
    "loader a number": (job(artifacts={"a": 5}), ": artifacts.a: write how it loads", ""),
    "unknown artifact key": (job(artifacts={"a": {"load": "torch"}}), ": artifacts.a.load: ", "did you mean loads?"),
    "keys text": (job(artifacts={"a": {"keys": "model"}}), ": artifacts.a.keys: must be a list of names", ""),
    "keys numbers": (job(artifacts={"a": {"keys": [1]}}), ": artifacts.a.keys: must be a list of names", ""),
    "keys not text": (job(artifacts={"a": {"keys": ["\ud800"]}}), ": artifacts.a.keys", ""),
    "opaque text": (job(artifacts={"a": {"allow_opaque": "yes"}}), ": artifacts.a.allow_opaque: must be true or", ""),
    "env a list": (job(env=["A=1"]), ": env: must map names to values, not list", ""),
    "env null": (job(env=None), ": env: must map names to values, not nothing", ""),
    "env name with a dash": (job(env={"A-B": "1"}), ": env.A-B: is not the name", ""),
    "env name empty": (job(env={"": "1"}), ": env.: is not the name", ""),
    "env name a digit": (job(env={"1A": "1"}), ": env.1A: is not the name", ""),
    "env name a number": (job(env={1: "1"}), ": env.1: is not the name", ""),
    "env name not ascii": (job(env={"GRÖSSE": "1"}), ": env.GRÖSSE: is not the name", ""),
    "env name with =": (job(env={"A=B": "1"}), ": env.A=B: is not the name", ""),
    "env ours": (job(env={"LEASE_OUT": "/x"}), ": env.LEASE_OUT: names starting with LEASE_ are ours", ""),
    "env a boolean": (job(env={"A": True}), ": env.A: must be text or a number, not bool", ""),
    "env nothing": (job(env={"A": None}), ": env.A: must be text or a number, not nothing", ""),
    "env a list inside": (job(env={"A": [1]}), ": env.A: must be text or a number, not list", ""),
    "env with a nul": (job(env={"A": "a\0b"}), ": env.A: holds a NUL", ""),
    "env that is not text": (job(env={"A": "\udcff"}), ": env.A: ", ""),
    "attempts zero": (job(attempts=0), ": attempts: must be a whole number from 1 to 100, not 0", ""),
    "attempts many": (job(attempts=101), ": attempts: ", ""),
    "attempts text": (job(attempts="3"), ": attempts: ", ""),
    "attempts true": (job(attempts=True), ": attempts: ", ""),
    "attempts a half": (job(attempts=1.5), ": attempts: ", ""),
    "unknown key": (job(gpus=8), ": gpus: is not a key of a job", "known: name, run"),
    "nearly a key": (job(artefacts={}), ": artefacts: is not a key of a job", "did you mean artifacts?"),
    "key a number": (job(**{"7": 1}), ": 7: is not a key of a job", "known: "),
}


@pytest.mark.parametrize("value, says, hint", list(BAD.values()), ids=list(BAD))
def test_a_bad_job_is_refused_with_file_key_and_hint(value, says, hint):
    error = refusal(value)
    assert says in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    "typo, key",
    [
        ("nam", "name"),
        ("runs", "run"),
        ("smok", "smoke"),
        ("artifact", "artifacts"),
        ("envs", "env"),
        ("attempt", "attempts"),
    ],
)
def test_the_nearest_key_is_suggested(typo, key):
    assert refusal(job(**{typo: "x"})).hint == f"did you mean {key}?"


# ---------------------------------------------------------------- any value at all

WORDS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=12)
KEYS = st.sampled_from([*GOOD, "smoke", "env", "attempts", "loads", "keys", "allow_opaque"]) | WORDS | st.integers()
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.sampled_from([*LOADERS, "a.pt", "*"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@MANY
@given(VALUES)
def test_any_value_parses_or_is_refused(value):
    parse_or_refuse(value)


@MANY
@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_a_good_job_with_anything_in_it_parses_or_is_refused(change):
    parse_or_refuse({**GOOD, **change})


def parse_or_refuse(value: object) -> None:
    try:
        parsed = parse_job(value, "x.yaml")
    except UserError as error:
        assert "x.yaml" in error.message
        return
    digest(parsed.as_dict())  # what parses can be hashed, sent and given to a shell
    parsed.run.encode("utf-8")
    for name, content in parsed.env.items():
        assert name.isidentifier() and name.isascii()
        assert "\0" not in content


# ---------------------------------------------------------------- the file


def test_a_job_file_is_read(tmp_path, odd_name):
    path = tmp_path / f"{odd_name}.yaml"
    path.write_text("name: toy\nrun: python train.py\nartifacts: {best.pt: torch}\n", "utf-8")
    assert read_job(path).name == "toy"


FILES = {
    "yaml broken": "name: [",
    "tabs": "name:\n\t- x",
    "two documents": "a: 1\n---\nb: 2\n",
    "python object": "!!python/object/apply:os.system ['true']",
    "impossible date": "name: toy\nrun: x\nartifacts: [a]\nenv: {DAY: 2024-99-99}\n",
    "number without end": "name: toy\nrun: x\nartifacts: [a]\nattempts: " + "9" * 5000,
    "too deep": "[" * 2000,
    "unhashable key": "? [a]\n: b",
    "control character": "name: \x01",
}


@pytest.mark.parametrize("text", list(FILES.values()), ids=list(FILES))
def test_a_file_that_is_no_yaml_is_refused_by_name(tmp_path, text):
    path = tmp_path / "lease.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_job(path)
    assert caught.value.code == "job.invalid"
    assert str(path) in caught.value.message


def test_a_missing_file_is_named_with_a_way_out(tmp_path):
    with pytest.raises(UserError) as caught:
        read_job(tmp_path / "none.yaml")
    assert caught.value.code == "job.missing"
    assert "none.yaml" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"name: caf\xe9"])
def test_a_file_that_is_not_utf8_is_named(tmp_path, content):
    (tmp_path / "lease.yaml").write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_job(tmp_path / "lease.yaml")
    assert caught.value.code == "job.unreadable"


def test_a_folder_is_no_job_file(tmp_path):
    with pytest.raises(UserError) as caught:
        read_job(tmp_path)
    assert caught.value.code == "job.unreadable"
