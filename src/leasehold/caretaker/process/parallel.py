"""Several small things at once: on a slow shared mount each of them is mostly waiting."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Iterable, Iterator, TypeVar

MOST = 8

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def ahead(work: Callable[[_Item], _Done], items: Iterable[_Item], most: int = MOST) -> Iterator[_Done]:
    """Yield what work makes of each item, in order, with several under way; the first that fails ends it."""
    from concurrent.futures import ThreadPoolExecutor  # it brings logging: only who needs it pays

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
