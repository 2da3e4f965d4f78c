"""A sum is the same, whoever takes it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.kit.files.sha256 import LITTLE_BYTES, new_sha256

_SOURCES = str(Path(__file__).resolve().parents[4] / "src")
_LITTLE = "import sys; from leasehold.kit.files.sha256 import new_sha256; sha = new_sha256(3); sha.update(b'abc')"


@pytest.mark.parametrize("size", [0, 3, LITTLE_BYTES, LITTLE_BYTES + 1])
def test_little_and_much_have_the_sums_that_hashlib_gives(size: int) -> None:
    sha = new_sha256(size)
    sha.update(b"x" * size)
    assert sha.hexdigest() == hashlib.sha256(b"x" * size).hexdigest()


def test_a_little_is_summed_right_before_anybody_has_loaded_openssl() -> None:
    code = _LITTLE + "; print(sha.hexdigest())"
    said = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": _SOURCES}, stdout=subprocess.PIPE, check=True
    )
    assert said.stdout.decode().strip() == hashlib.sha256(b"abc").hexdigest()
