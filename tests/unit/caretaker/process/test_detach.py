"""A caretaker that is started detached: it shows itself, or what became of it is said without a long wait."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import List

from leasehold.caretaker.process import detach


def test_a_caretaker_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    looks: List[int] = []

    def ready() -> bool:
        looks.append(1)
        assert len(looks) < 4000, "it is still waited for"
        return False

    words = [sys.executable, "-I", "-S", "-c", "import sys; sys.exit('no room for the journal')"]
    way, tried = detach.launch(["setsid"], lambda _: words, str(tmp_path), ready)
    assert (way, tried) == ("", ["setsid: started, and ended at once: no room for the journal"])


def test_one_that_ended_because_another_cares_counts_as_started(tmp_path: Path) -> None:
    words = [sys.executable, "-I", "-S", "-c", "open(%r, 'w').close()" % str(tmp_path / "cared")]
    way, tried = detach.launch(["setsid"], lambda _: words, str(tmp_path), (tmp_path / "cared").exists)
    assert (way, tried) == ("setsid", [])
