"""A slow connection's bytes are packed while they shrink; others are left alone, and looked at again later."""

from __future__ import annotations

from leasehold.lifecycle.pull.compression import Packing

MB = 1_000_000


class Line:
    """A connection that brings bytes at a speed, shrunk to a part of their size where they are packed."""

    def __init__(self, bytes_per_s: float, shrunk_to: float) -> None:
        self.now = 50.0
        self.heard = 7
        self.bytes_per_s = bytes_per_s
        self.shrunk_to = shrunk_to
        self.packing = Packing(self.heard, lambda: self.now)

    def ask(self, size: int = 3 * MB) -> bool:
        """Ask for so much; tell whether it was to be packed."""
        packed = self.packing.wanted(self.heard)
        travels = int(size * self.shrunk_to) if packed else size
        self.now += travels / self.bytes_per_s
        self.heard += travels
        self.packing.came(size)
        return packed


def test_what_shrinks_is_packed_all_the_way():
    line = Line(5 * MB, 0.3)
    assert all(line.ask() for _ in range(50))


def test_what_does_not_shrink_is_tried_now_and_then():
    line = Line(5 * MB, 1.0)
    asked = [line.ask() for _ in range(50)]
    assert asked[0]
    assert 4 <= sum(asked) <= 12


def test_a_quick_connection_is_not_held_up_by_packing():
    line = Line(90 * MB, 0.5)
    assert sum(line.ask() for _ in range(50)) <= 12


def test_what_begins_to_shrink_is_packed_again():
    line = Line(5 * MB, 1.0)
    for _ in range(3):
        line.ask()
    line.shrunk_to = 0.2
    asked = [line.ask() for _ in range(30)]
    assert all(asked[10:])


def test_little_tells_nothing():
    line = Line(5 * MB, 1.0)
    assert all(line.ask(1000) for _ in range(50))
