"""Download one file: resume the last try, end silent connections, count tries, check the bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from leasehold.kit.files.atomic import read_json, write_json

from .download_store import Hashes, NoRoom, Store, Taken, hash_file
from .http import TROUBLE, Answer, Gone, Later, Route, measure, open_at, say

LIMITS: Dict[str, float] = {
    "stall_s": 45.0,  # with no byte for this long, open a new connection
    "try_s": 600.0,  # the longest that one connection may last
    "tries": 20,
    "pause_s": 5.0,
    "probe_s": 3.0,  # of each route, when there are several
    "probe_bytes": 8 << 20,
    "report_s": 10.0,
    "least_rate": 100e3,  # a try that was faster and only ran out of time does not count
}
_MOST_DIFFERENT = 2  # a second wrong hash is no accident


class Failed(Exception):
    """The file cannot be downloaded; str() gives the reason."""

    def __init__(self, text: str, tries: int = 0) -> None:
        super().__init__(text)
        self.tries = tries


class Wanted(NamedTuple):
    """A file, its routes, and what is known of its bytes."""

    path: str  # below LEASE_DATA
    routes: Tuple[Route, ...]
    size: int = 0
    sha256: str = ""
    blob: str = ""

    def differs(self, seen: Hashes) -> str:
        """Return how these bytes differ from what is known; empty when they agree."""
        if self.size and seen.size != self.size:
            return "%d bytes came, %d were promised" % (seen.size, self.size)
        if self.sha256 and seen.sha256 != self.sha256:
            return "sha256 %s… came, %s… was promised" % (seen.sha256[:12], self.sha256[:12])
        if not self.sha256 and self.blob and seen.blob != self.blob:
            return "git blob %s… came, %s… was promised" % (seen.blob[:12], self.blob[:12])
        return ""


class Ears(NamedTuple):
    """Callbacks: tell journals an event, moved counts bytes (negative when a part is dropped)."""

    tell: Callable[..., None]
    moved: Callable[[int], None]
    sized: Callable[[int], None]  # a length that no list gave


class FileFetch:
    """Downloads one file until it is in its place."""

    def __init__(self, store: Store, wanted: Wanted, limits: Dict[str, float], ears: Ears) -> None:
        self.store = store
        self.wanted = wanted
        self.limits = limits
        self.tell = ears.tell
        self.moved = ears.moved
        self.sized = ears.sized
        self.part = store.part(wanted.path)
        self.routes: List[Route] = list(wanted.routes)
        self.tries = 0
        self.different = 0
        self.last = ""
        self.measured = False

    def run(self, announce: bool) -> Hashes:
        """Fetch, check, place; raises Failed, NoRoom or Taken."""
        already = self._already()
        if already is not None:
            return already
        self._choose_route()
        self.measured = not announce or self.measured
        while self.tries < self.limits["tries"] and self.routes:
            self.tries += 1
            begun, before = time.monotonic(), self._have()
            wait_s = self.limits["pause_s"]
            try:
                if self._once():
                    seen = self._check()
                    if seen is not None:
                        self.store.place(self.wanted.path)
                        return seen
            except Gone as error:
                self.last = str(error)
                self.routes.pop(0)
                wait_s = 0.0
            except TROUBLE as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise NoRoom("%s is full: %s" % (self.store.data, say(error))) from None
                self.last = say(error)
                wait_s = error.wait_s if isinstance(error, Later) else wait_s
                self.routes.append(self.routes.pop(0))
            self._between(time.monotonic() - begun, self._have() - before, wait_s)
        raise Failed(self.last or "no route is left", self.tries)

    def _already(self) -> Optional[Hashes]:
        """Accept a file that is here without a marker of ours, if its bytes match."""
        path = self.store.path(self.wanted.path)
        if not os.path.lexists(path):
            return None
        if not os.path.isfile(path):
            raise Taken("%s is there and is no plain file" % path)
        seen = hash_file(path)
        if (self.wanted.sha256 or self.wanted.blob) and not self.wanted.differs(seen):
            return seen
        proof = "its bytes differ" if self.wanted.sha256 or self.wanted.blob else "nothing says what it should be"
        raise Taken("%s is there, and %s; remove it, or give its sha256" % (path, proof))

    def _choose_route(self) -> None:
        if len(self.routes) < 2:
            return
        seen = [measure(route, self._have(), self.limits) for route in self.routes]
        ranked = sorted(zip(seen, self.routes), key=lambda pair: -pair[0]["bytes_per_s"])
        self.routes = [route for _, route in ranked]
        self.tell("download_route", file=self.wanted.path, routes=seen, used=self.routes[0].host)
        self.measured = True

    def _once(self) -> bool:
        """Use one connection; return whether the file is complete now."""
        route, have, known = self.routes[0], self._have(), read_json(self.part + ".json") or {}
        proven = bool(self.wanted.sha256 or self.wanted.blob)
        if have and not proven and known.get("host") != route.host:
            have = 0  # nothing would detect halves from two hosts that do not fit
        if self.wanted.size and have == self.wanted.size:
            return True
        validator = "" if proven else str(known.get("validator") or "")
        answer = open_at(route, have, validator, self.limits["stall_s"])
        with contextlib.closing(answer.body):
            total = self._total(answer)
            if not self.wanted.size and total:
                self.sized(total)
            self.store.need_room(max(0, (total or 0) - answer.offset), 1)
            write_json(self.part + ".json", {"host": route.host, "validator": answer.validator, "total": total}, False)
            return self._take(answer, total, route)

    def _total(self, answer: Answer) -> Optional[int]:
        if self.wanted.size and answer.total not in (None, self.wanted.size):
            raise Gone("it serves %s bytes, %d were promised" % (answer.total, self.wanted.size))
        total = answer.total if answer.total is not None else self.wanted.size or None
        if total is None and not self.wanted.sha256:
            raise Gone("the server does not report the length; give `size` or `sha256`")
        return total

    def _take(self, answer: Answer, total: Optional[int], route: Route) -> bool:
        begun = time.monotonic()
        fd = os.open(self.part, os.O_WRONLY | os.O_CREAT, 0o644)
        have = answer.offset
        self.moved(min(0, have - self._have()))
        try:
            os.ftruncate(fd, have)
            os.lseek(fd, have, os.SEEK_SET)
            while True:
                chunk = answer.read()
                if not chunk:
                    break
                view = memoryview(chunk)
                while view:
                    view = view[os.write(fd, view) :]
                have += len(chunk)
                self.moved(len(chunk))
                spent = time.monotonic() - begun
                self._measure_first(route, have - answer.offset, spent)
                if spent > self.limits["try_s"] and have != total:
                    self.last = "a connection ran out of its %g s" % self.limits["try_s"]
                    return False
        finally:
            os.close(fd)
        self._measure_first(route, have - answer.offset, time.monotonic() - begun, whole=True)
        if total is not None and have != total:
            raise ValueError("the connection ended at byte %d of %d" % (have, total))
        return True

    def _measure_first(self, route: Route, got: int, spent: float, whole: bool = False) -> None:
        """Measure the only route too, by the first seconds of the transfer itself."""
        if self.measured or (spent < self.limits["probe_s"] and not whole):
            return
        self.measured = True
        seen = {"route": route.host, "via": route.via(), "bytes_per_s": int(got / max(0.001, spent))}
        self.tell("download_route", file=self.wanted.path, routes=[seen], used=route.host)

    def _check(self) -> Optional[Hashes]:
        seen = hash_file(self.part)
        wrong = self.wanted.differs(seen)
        if not wrong:
            return seen
        self.different += 1
        self.last = wrong
        self.moved(-seen.size)
        os.unlink(self.part)
        if self.different >= _MOST_DIFFERENT:
            raise Failed(wrong, self.tries)
        self.routes.append(self.routes.pop(0))
        return None

    def _between(self, spent: float, gained: int, wait_s: float) -> None:
        """Count a try unless only its time limit ended it, and pause before the next."""
        fast = spent >= self.limits["try_s"] and gained >= self.limits["least_rate"] * spent
        if fast:
            self.tries -= 1
            return
        if self.tries < self.limits["tries"] and self.routes:
            self.tell("download_retry", file=self.wanted.path, tries=self.tries, error=self.last, have=self._have())
            time.sleep(wait_s)

    def _have(self) -> int:
        try:
            return os.path.getsize(self.part)
        except OSError:
            return 0


def limits_of(said: Any) -> Dict[str, float]:
    """Read other limits, set by a test or by a person, over the defaults."""
    import json

    try:
        found = json.loads(said) if said else {}
    except ValueError:
        found = {}
    given = {name: float(found[name]) for name in LIMITS if isinstance(found.get(name), (int, float))}
    return {**LIMITS, **given}
