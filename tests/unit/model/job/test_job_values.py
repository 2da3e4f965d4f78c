"""Jobs as values: half characters, NULs and strange names can be spelled in YAML, and cannot travel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.errors import UserError
from leasehold.kit.files.canonical_json import canonical, digest
from leasehold.model.job.keys import LOADERS, WORDS
from leasehold.model.job.parse_job import parse_job
from tests.support.examples import MANY

GOOD = {"name": "toy", "run": "python train.py", "artifacts": {"best.pt": "torch"}}
HALF = "\ud800"
UNSENDABLE = {
    "name": {"name": "a" + HALF},
    "run": {"run": "echo " + HALF},
    "run with a nul": {"run": "a\0b"},
    "setup": {"setup": HALF},
    "smoke": {"smoke": HALF},
    "env value": {"env": {"A": HALF}},
    "env value with a nul": {"env": {"A": "a\0b"}},
    "env name": {"env": {HALF: "1"}},
    "env name not ascii": {"env": {"GRÖSSE": "1"}},
    "env name with =": {"env": {"A=B": "1"}},
    "secrets": {"secrets": [HALF]},
    "candidates": {"candidates": [HALF]},
    "artifact pattern": {"artifacts": [HALF]},
    "artifact pattern with a nul": {"artifacts": ["a\0b"]},
    "artifact keys": {"artifacts": {"a.pt": {"keys": [HALF]}}},
    "scratch": {"scratch": [HALF]},
    "checkpoint path": {"checkpoint": {"path": HALF}},
    "progress": {"progress": "(?P<step>.)" + HALF},
    "gpu name": {"resources": {"gpu": {"name": HALF}}},
}


@pytest.mark.parametrize("change", list(UNSENDABLE.values()), ids=list(UNSENDABLE))
def test_what_cannot_travel_is_refused_by_its_key(change):
    with pytest.raises(UserError) as caught:
        parse_job({**GOOD, **change}, "lease.yaml")
    (key,) = change
    assert caught.value.code == "job.invalid"
    assert caught.value.message.startswith(f"lease.yaml: {key}")
    assert caught.value.hint


TEXT = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=12)
NAMES = st.sampled_from([*(word.name for word in WORDS), "loads", "keys", "gpu", "count", "path", "size"])
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from([*LOADERS, "a.pt", "*", "1GB"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXT | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@MANY
@given(VALUES)
def test_any_value_parses_or_is_refused(value):
    parse_or_refuse(value)


@MANY
@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_a_good_job_with_anything_in_it_parses_or_is_refused(change):
    parse_or_refuse({**GOOD, **change})


def parse_or_refuse(value: object) -> None:
    try:
        parsed = parse_job(value, "x.yaml")
    except UserError as error:
        assert "x.yaml" in error.message
        return
    spelled = canonical(parsed.as_dict())  # what parses can be hashed, sent and given to a shell
    assert digest(parsed.as_dict())
    assert b"\\u0000" not in spelled
    for name in parsed.env:
        assert name.isidentifier() and name.isascii()
