"""Query many boxes in parallel, with limits on shared gateways; a silent box delays no other.

Each call has its own thread and starts when a slot is free. A call that has been silent for a while keeps its
thread and passes its slot to the next one.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A query: its name, its gateway (looked up in a thread), and its function. `ask` must return."""

    name: str
    gateway: Callable[[], str]
    ask: Callable[[], T]


@dataclass(frozen=True)
class Limits:
    """Limits on parallel calls, in all and over one gateway: a default sshd drops connections from the tenth on."""

    at_once: int = 32
    per_gateway: int = 6
    gateways_at_once: int = 4  # looking up a gateway starts a process
    settled_s: float = 5.0  # older calls only wait: they no longer count
    jitter_s: float = 0.2  # so that calls over one gateway do not start together
    tick_s: float = 0.25


@dataclass(frozen=True)
class Turn(Generic[T]):
    """The answers since the last turn, and the calls still open: (name, for how long)."""

    heard: list[tuple[str, T]]
    waiting: list[tuple[str, float]]


def fan_out(
    calls: Sequence[Call[T]],
    limits: Limits | None = None,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Iterator[Turn[T]]:
    """Query everyone; yield at every answer and every tick until all have returned.

    Leaving early leaves the threads running: the caller then ends what they wait for.
    """
    fan: _Fan[T] = _Fan(limits or Limits(), clock, chance)
    for call in calls:
        threading.Thread(target=fan.work, args=(_Seat(call),), daemon=True, name=f"ask {call.name}").start()
    left = len(calls)
    while left:
        heard = fan.gather()
        left -= len(heard)
        fan.admit()
        yield fan.turn(heard, left)


@dataclass
class _Seat(Generic[T]):
    call: Call[T]
    gateway: str = ""
    wait_s: float = 0.0
    begun: float = 0.0
    go: threading.Event = field(default_factory=threading.Event)
    answer: T | None = None
    broken: BaseException | None = None
    over: bool = False


class _Fan(Generic[T]):
    def __init__(self, limits: Limits, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._events: queue.Queue[_Seat[T]] = queue.Queue()
        self._looking_up = threading.Semaphore(limits.gateways_at_once)
        self._ready: list[_Seat[T]] = []
        self._asked: list[_Seat[T]] = []

    def work(self, seat: _Seat[T]) -> None:
        """Run in the call's thread: look up the gateway, wait for a slot, ask."""
        try:
            with self._looking_up:
                seat.gateway = seat.call.gateway()
            self._events.put(seat)
            seat.go.wait()
            time.sleep(seat.wait_s)
            seat.answer = seat.call.ask()
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: raised again where turns are taken
            seat.broken = error
        seat.over = True
        self._events.put(seat)

    def gather(self) -> list[tuple[str, T]]:
        """Wait a tick for answers, then take all there are."""
        news: list[_Seat[T]] = []
        try:
            news.append(self._events.get(timeout=self._limits.tick_s))
            while True:
                news.append(self._events.get_nowait())
        except queue.Empty:
            pass
        heard = []
        for seat in news:
            if seat.broken is not None:
                raise seat.broken
            if seat.over:
                self._asked.remove(seat)
                heard.append((seat.call.name, seat.answer))
            else:
                self._ready.append(seat)
        return heard  # type: ignore[return-value] # a seat that is over and not broken has its answer

    def admit(self) -> None:
        """Start the calls for which there are slots."""
        now = self._clock()
        busy = [seat.gateway for seat in self._asked if now - seat.begun < self._limits.settled_s]
        for seat in list(self._ready):
            if len(busy) >= self._limits.at_once:
                return
            if busy.count(seat.gateway) >= self._limits.per_gateway:
                continue
            seat.begun = now
            seat.wait_s = self._chance() * self._limits.jitter_s if seat.gateway in busy else 0.0
            busy.append(seat.gateway)
            self._ready.remove(seat)
            self._asked.append(seat)
            seat.go.set()

    def turn(self, heard: list[tuple[str, T]], left: int) -> Turn[T]:
        """Return the current state."""
        now = self._clock()
        return Turn(heard, [(seat.call.name, now - seat.begun) for seat in self._asked])
