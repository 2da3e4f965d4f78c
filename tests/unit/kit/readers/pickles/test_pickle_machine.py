"""The machine takes everything that pickle writes of plain data, in every protocol, and sees the same keys."""

from __future__ import annotations

import pickle

import pytest

from leasehold.kit.readers import Limits
from leasehold.kit.readers.pickles.pickle_machine import run_pickle
from leasehold.kit.readers.pickles.stand_ins import Inert
from leasehold.kit.readers.torch.torch_world import TorchWorld

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**600), max_value=2**600),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.frozensets(st.integers()),
    st.tuples(st.text(), st.integers()),
)
DATA = st.recursive(
    st.one_of(HASHABLE, st.binary().map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.sets(HASHABLE),
        st.dictionaries(HASHABLE, inner),
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("protocol", range(6))
@hypothesis.settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(data=st.dictionaries(st.text(max_size=5), DATA, max_size=5))
def test_plain_data_of_every_protocol_is_taken(protocol, data):
    world = TorchWorld({}, Limits())
    root = run_pickle(pickle.dumps(data, protocol), world, Limits())
    assert isinstance(root, Inert)
    assert len(root.keys or []) == len(data)
    assert set(root.keys or []) == set(data)
    assert world.opaque == set()
