"""One spelling: equal values hash equally, in whatever order they were made."""

from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from leasehold.kit.files.canonical_json import canonical, digest, sha256
from tests.support.examples import MANY

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


def shuffled(value, order):
    """Rebuild value with every mapping filled in another order."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda item: order(item[0]))
        return {key: shuffled(inner, order) for key, inner in pairs}
    if isinstance(value, list):
        return [shuffled(inner, order) for inner in value]
    return value


@MANY
@given(VALUES, st.integers(0, 2**32))
def test_the_order_of_keys_does_not_matter(value, seed):
    other = shuffled(value, lambda key: hashlib.sha256(b"%d %s" % (seed, key.encode("utf-8", "replace"))).digest())
    assert canonical(other) == canonical(value)
    assert digest(other) == digest(value)


@MANY
@given(VALUES)
def test_the_spelling_is_json_and_says_the_same(value):
    text = canonical(value)
    assert json.loads(text) == value
    assert digest(value) == hashlib.sha256(text).hexdigest() == sha256(text)


@MANY
@given(VALUES, VALUES)
def test_values_that_json_tells_apart_hash_differently(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest(one) == digest(other)) == same


def test_the_spelling_is_fixed():
    """Receipts and run ids of earlier versions rest on these very bytes."""
    value = {"b": [1, 2.5, None, True], "a": {"中": "é\n"}}
    assert canonical(value) == '{"a":{"中":"é\\n"},"b":[1,2.5,null,true]}'.encode()
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
