"""Pickles that execute, or would exhaust, whoever loads them; here they become names in a list, or refusals.

Each live payload is first given to pickle.loads to show that it does fire there.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys

import pytest

from leasehold.kit.readers import Limits
from tests.unit.kit.readers.forge import called, finished, mapping, named, number, text, torch_zip, tuple_of

SYSTEM = ("os.system", "posix.system", "subprocess.call")


@pytest.fixture
def canary(tmp_path):
    """A file that exists once anything has run."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), "something in the file was executed"


def _command(canary) -> bytes:
    return text(f"touch '{canary}'")


def _short(value: str) -> bytes:
    raw = value.encode()
    return b"\x8c" + bytes([len(raw)]) + raw


def _payloads(canary):
    argument = _command(canary)
    one = tuple_of(argument)
    system = named("os.system")
    yield "global and reduce", system + one + b"R"
    yield "stack_global", _short("os") + _short("system") + b"\x93" + one + b"R"
    yield "posix by its own name", named("posix.system") + one + b"R"
    yield "inst", b"(" + argument + b"ios\nsystem\n"
    yield "obj", b"(" + system + argument + b"o"
    yield "eval", called("builtins.eval", text(f"__import__('os').system(\"touch '{canary}'\")"))
    yield "python 2 name", called("__builtin__.eval", text(f"__import__('os').system(\"touch '{canary}'\")"))
    yield "exec", called("builtins.exec", text(f"open({str(canary)!r}, 'w')"))
    yield (
        "getattr chain",
        called("builtins.getattr", called("importlib.import_module", text("os")), text("system")) + (one + b"R"),
    )
    yield (
        "apply",
        called("operator.methodcaller", text("system"), argument)
        + tuple_of(called("importlib.import_module", text("os")))
        + b"R",
    )
    yield "memoized function", system + b"q\x010h\x01" + one + b"R"
    yield "nested pickle", called("pickle.loads", b"B" + _counted(finished(system + one + b"R")))
    yield "in a dict key", b"}" + system + one + b"RNs"
    yield "dropped result", system + one + b"R0N"


def _counted(raw: bytes) -> bytes:
    return struct.pack("<I", len(raw)) + raw


NAMES = [name for name, _ in _payloads("x")]


@pytest.mark.parametrize("name", NAMES)
def test_live_payloads_run_under_pickle_and_not_here(reading_of, canary, name):
    payload = finished(dict(_payloads(canary))[name])
    pickle.loads(payload)
    assert canary.exists(), "the payload is not live, so the test proves nothing"
    canary.unlink()
    reading = reading_of("torch", torch_zip(payload))
    assert reading.opaque


@pytest.mark.parametrize(
    "payload",
    [
        # NEWOBJ and NEWOBJ_EX call __new__ of whatever is named.
        named("os.system") + tuple_of(text("true")) + b"\x81",
        named("subprocess.Popen") + tuple_of(text("true")) + b"}\x92",
        # BUILD calls __setstate__ or sets attributes.
        named("os.environ") + mapping({"PATH": text("/evil")}) + b"b",
        called("builtins.object") + tuple_of(b"N", mapping({"__class__": named("os.system")})) + b"b",
        # Calling what a call returned.
        called("builtins.getattr", named("os.system"), text("__call__")) + tuple_of(text("true")) + b"R",
        named("os.system") + tuple_of(text("true")) + b"R" + tuple_of() + b"R",
        # Appending to and setting items of instances runs their extend and __setitem__.
        called("my.Evil") + b"(NNe",
        called("my.Evil") + b"(NNu",
        called("my.Evil") + b"Na",
        called("my.Evil") + b"NNs",
        called("my.Evil") + b"(N\x90",
        # A dotted name walks attributes.
        _short("os") + _short("path.os.system") + b"\x93" + tuple_of(text("true")) + b"R",
        called("copyreg._reconstructor", named("os.system"), named("builtins.object"), b"N"),
        called("torch.storage._load_from_bytes", text("x")),
    ],
)
def test_every_way_of_touching_a_class_is_inert_and_named(reading_of, payload):
    reading = reading_of("torch", torch_zip(finished(payload)))
    assert reading.opaque


def test_naming_a_module_does_not_import_it(reading_of, canary, tmp_path, monkeypatch):
    (tmp_path / "canary_module.py").write_text(f"open({str(canary)!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    reading = reading_of("torch", torch_zip(finished(called("canary_module.Thing", number(1)))))
    assert reading.opaque == ("canary_module.Thing",)
    assert "canary_module" not in sys.modules


def test_the_environment_is_untouched(reading_of):
    before = dict(os.environ)
    reading_of("torch", torch_zip(finished(named("os.environ") + mapping({"PATH": text("/evil")}) + b"b")))
    assert dict(os.environ) == before


@pytest.mark.parametrize("code", [b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"])
def test_the_extension_registry_is_refused(refusal_of, code):
    assert "extension registry" in refusal_of("torch", torch_zip(finished(code)))


@pytest.mark.parametrize("code", [b"\x97", b"N\x98", b"\xff", b"\x00", b"Z"])
def test_unknown_opcodes_and_outside_buffers_are_refused(refusal_of, code):
    assert "opcode" in refusal_of("torch", torch_zip(finished(code)))


# ---------------------------------------------------------------- exhaustion


def test_a_huge_memo_index_is_refused(refusal_of):
    assert "memo slot" in refusal_of("torch", torch_zip(finished(b"Nr\xff\xff\xff\xff")))
    assert "memo slot" in refusal_of("torch", torch_zip(finished(b"Np99999999999\n")))
    assert refusal_of("torch", torch_zip(finished(b"Np-1\n")))


def test_more_memo_entries_than_the_limit_are_refused(refusal_of):
    assert "remembers more" in refusal_of("torch", torch_zip(finished(b"N\x94" * 50)), Limits(max_memo=40))


def test_more_operations_than_the_limit_are_refused(refusal_of):
    assert "operations" in refusal_of("torch", torch_zip(finished(b"N0" * 500 + b"N")), Limits(max_pickle_ops=1000))


def test_a_larger_pickle_than_the_limit_is_refused_unread(refusal_of):
    assert "at most 100" in refusal_of("torch", torch_zip(finished(b"N0" * 500 + b"N")), Limits(max_pickle_bytes=100))


@pytest.mark.parametrize("opening", [b"(", b"](", b"}N(", b"((", b"]q\x01("])
def test_nesting_without_end_is_refused_and_not_recursed_into(refusal_of, opening):
    assert "marks" in refusal_of("torch", torch_zip(finished(opening * 200_000)))


@pytest.mark.parametrize("depth", [300_000])
def test_nesting_that_closes_again_is_read_without_recursion(reading_of, depth):
    assert reading_of("torch", torch_zip(finished(b")" + b"\x85" * depth)))
    assert reading_of("torch", torch_zip(finished(b"]" * depth + b"a" * (depth - 1))))
    assert reading_of("torch", torch_zip(finished(b"N" + b"(" * 1000 + b"N" + b"l" * 1000 + b"0")))


def test_doubling_tuples_as_a_key_take_no_exponential_time(reading_of):
    """The standard Unpickler hashes such a key in 2**200 steps."""
    doubled = b")" + b"2\x86" * 200
    reading = reading_of("torch", torch_zip(finished(b"}" + doubled + b"Ns")))
    assert reading.tensors == 0


def test_colliding_integer_keys_take_no_quadratic_time(reading_of):
    modulus = 2**61 - 1
    keys = b"".join(number(i * modulus) + b"N" for i in range(1, 60_000))
    assert reading_of("torch", torch_zip(finished(b"}(" + keys + b"u")))


def test_doubling_lists_are_never_expanded(reading_of):
    assert reading_of("torch", torch_zip(finished(b"]" + b"q\x010](h\x01h\x01e" * 200)))


def test_lists_that_hold_themselves_are_read(reading_of):
    assert reading_of("torch", torch_zip(finished(b"]q\x01h\x01a")))


@pytest.mark.parametrize(
    "claim",
    [
        b"X\xff\xff\xff\x7f",
        b"B\xff\xff\xff\xff",
        b"T\xff\xff\xff\x7f",
        b"\x8d" + b"\xff" * 7 + b"\x7f",
        b"\x8e" + b"\xff" * 8,
        b"\x96" + b"\xff" * 8,
        b"\x8b\xff\xff\xff\x7f",
        b"\x8b\xff\xff\xff\xff",
        b"\x95" + b"\xff" * 8,
    ],
)
def test_lengths_beyond_the_file_are_refused_without_allocating_them(refusal_of, claim):
    assert "pickle" in refusal_of("torch", torch_zip(finished(claim)))


@pytest.mark.parametrize("code", [b"I", b"L", b"F"])
def test_decimal_text_of_a_million_digits_is_refused(refusal_of, code):
    assert "line end" in refusal_of("torch", torch_zip(finished(code + b"9" * 1_000_000 + b"\n")))


def test_huge_integers_can_be_keys_without_being_printed(reading_of):
    huge = b"\x8b" + struct.pack("<I", 4000) + b"\x7f" * 4000
    assert reading_of("torch", torch_zip(finished(b"}" + huge + b"Ns"))).keys == ("a huge number",)


# ---------------------------------------------------------------- malformed


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"0",
        b"1",
        b"2",
        b"a",
        b"Na",
        b"NNa",
        b"s",
        b"NNs",
        b"NNNs",
        b"}(Nu",
        b"(u",
        b"t",
        b"l",
        b"d",
        b"(Nd",
        b"\x85",
        b"N\x86",
        b"NN\x87",
        b"R",
        b"N)R",
        b"Nh\x00",
        b"h\x05",
        b"g5\n",
        b"gx\n",
        b"q\x00",
        b"\x94",
        b"b",
        b"Nb",
        b"NNb",
        b"]Nb",
        b"\x81",
        b"NN\x81",
        b"\x92",
        b"NNN\x92",
        b"\x93",
        b"NN\x93",
        b"(o",
        b"(No",
        b"(\x91N",
        b"\x90",
        b"N(N\x90",
        b"NN",
        b"(N",
        b"}]Ns",
        b"}}Ns",
        b"\x8f(]\x90",
        b"Q",
        b"Inope\n",
        b"Fnope\n",
        b"Snope\n",
        b"X\x01\x00\x00\x00\xff",
        b"c\xff\nname\n",
        b"cos\n",
        b"\x80\x06N",
        b"cos\nsystem\nNR",
    ],
)
def test_pickles_that_no_pickler_writes_are_refused(refusal_of, body):
    assert "pickle" in refusal_of("torch", torch_zip(finished(body)))


def test_bytes_after_the_end_are_refused(refusal_of):
    assert "after its end" in refusal_of("torch", torch_zip(finished(b"}") + b"N."))
