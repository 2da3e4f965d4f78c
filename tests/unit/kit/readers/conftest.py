"""What the reader tests share: a file made of bytes, and the refusal it must meet."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Union

import pytest

from leasehold.kit.readers import Limits, Reading, Unreadable, read

Content = Union[bytes, str]


@pytest.fixture
def reading_of(tmp_path: Path) -> Callable[..., Reading]:
    """Read these contents as this kind."""

    def read_it(kind: str, content: Content, limits: Limits = Limits()) -> Reading:  # noqa: B008  frozen
        path = tmp_path / "artifact"
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return read(str(path), kind, limits)

    return read_it


@pytest.fixture
def refusal_of(reading_of: Callable[..., Reading]) -> Callable[..., str]:
    """Return why these contents are refused as this kind."""

    def refuse(kind: str, content: Content, limits: Limits = Limits()) -> str:  # noqa: B008  frozen
        with pytest.raises(Unreadable) as caught:
            reading_of(kind, content, limits)
        return caught.value.reason

    return refuse
