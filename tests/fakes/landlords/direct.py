"""A market whose door leads straight into a fake, without a socket: thousands of lives in seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit

from leasehold.platforms.landlords.http import Ask, Door, Kind
from leasehold.platforms.landlords.market import Market
from leasehold.platforms.landlords.markets import vendor
from tests.fakes.landlords.server import Call, FakeLandlord, Silence


@dataclass
class DirectDoor(Door):
    """Hands each request to the fake as its server would; `hook` sees a create before and after it is carried out."""

    fake: FakeLandlord | None = None
    hook: Callable[[str, Ask], None] = lambda moment, ask: None

    def _exchange(self, ask: Ask) -> tuple[int, Mapping[str, str], bytes]:
        assert self.fake is not None
        path = urlsplit(vendor(self.fake.name).base).path + ask.path
        headers = {name.lower(): text for name, text in self.headers.items()}
        body = None if ask.body is None else json.loads(json.dumps(ask.body))
        if ask.kind is not Kind.READ:
            self.hook("before", ask)
        try:
            said = self.fake.answer(Call(ask.method, path, dict(ask.query), headers, body))
        except Silence:
            raise ConnectionResetError("the connection was closed") from None
        finally:
            if ask.kind is not Kind.READ:
                self.hook("after", ask)
        data = said.raw if said.raw is not None else b"" if said.value is None else json.dumps(said.value).encode()
        if self.fake.faults.garbled:
            raise ValueError("its answer was cut off in the middle")
        return said.status, {"Date": formatdate(self.fake.world.vendor_now, usegmt=True), **said.headers}, data


def direct_market(fake: FakeLandlord, hook: Callable[[str, Any], None]) -> Market:
    """Open the adapter on a fake without a socket; its pauses pass in virtual time."""
    entry = vendor(fake.name)
    door = DirectDoor(
        entry.title, entry.base, {"Authorization": entry.auth.format(key=fake.key)}, clock=fake.clock,
        sleep=fake.clock.pass_s, fake=fake, hook=hook,
    )  # fmt: skip
    module, _, name = entry.adapter.partition(":")
    return cast("Market", getattr(import_module(module), name)(door, "key-test"))
