"""Run several small operations at once: on a slow shared mount, each of them mostly waits."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Iterable, Iterator, TypeVar

MOST = 8

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def ahead(work: Callable[[_Item], _Done], items: Iterable[_Item], most: int = MOST) -> Iterator[_Done]:
    """Yield the result of `work` for each item, in order, with several running ahead; the first failure ends it."""
    from concurrent.futures import ThreadPoolExecutor  # it brings logging: only callers that need it pay

    waiting: Deque[Any] = deque()
    with ThreadPoolExecutor(most) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()
