"""All the fake landlords by name, and markets that ask them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from leasehold.platforms.landlords.http import Door
from leasehold.platforms.landlords.keys import Key
from leasehold.platforms.landlords.market import Market
from leasehold.platforms.landlords.markets import Patience, open_market, vendor
from tests.fakes.landlords.clock import VirtualClock
from tests.fakes.landlords.server import KEY, FakeLandlord, served
from tests.fakes.landlords.world import Houses

FAKES = {
    "autodl-pro": "tests.fakes.landlords.autodl:FakeAutoDl",
    "paperspace": "tests.fakes.landlords.paperspace:FakePaperspace",
    "runpod": "tests.fakes.landlords.runpod:FakeRunPod",
    "lambda": "tests.fakes.landlords.lambdalabs:FakeLambda",
    "vastai": "tests.fakes.landlords.vastai:FakeVastAi",
}

EXAMPLE = {"acme": "tests.fakes.landlords.acme:FakeAcme"}
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "landlords-own.md"


@contextlib.contextmanager
def fake_landlord(name: str, clock: VirtualClock | None = None, houses: Houses | None = None) -> Iterator[FakeLandlord]:
    """Serve one fake, or the example; a request or answer that broke a schema fails the test at the end."""
    module, _, kind = (FAKES | EXAMPLE)[name].partition(":")
    fake: FakeLandlord = getattr(importlib.import_module(module), kind)(clock, houses)
    with served(fake):
        yield fake
    assert not fake.problems, fake.problems


def url_of(fake: FakeLandlord) -> str:
    """The address that takes the place of the landlord's own."""
    return fake.address + urlsplit(vendor(fake.name).base).path


def environment(*fakes: FakeLandlord, key: str = KEY) -> dict[str, str]:
    """Variables that lead `lease` to these fakes, with a key that they accept."""
    values = {}
    for fake in fakes:
        entry = vendor(fake.name)
        values |= {entry.url_variable: url_of(fake), entry.variables[0]: key}
    return values


def market_on(fake: FakeLandlord, key: str = KEY) -> Market:
    """Open the adapter on a fake; its pauses pass in virtual time."""
    if fake.name in EXAMPLE:
        return _example(fake, key)
    patience = Patience(timeout_s=20.0, clock=fake.clock, sleep=fake.clock.pass_s)
    return open_market(fake.name, Key(key, "a test"), {vendor(fake.name).url_variable: url_of(fake)}, patience)


def _example(fake: FakeLandlord, key: str) -> Market:
    """Take the adapter from the page that shows it."""
    code = _PAGE.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code, str(_PAGE), "exec"), names)
    headers = {"Authorization": f"Bearer {key}"}
    door = Door("Acme", fake.address, headers, clock=fake.clock, sleep=fake.clock.pass_s)
    return cast("Market", names["Acme"](door, Key(key, "a test").mark))
