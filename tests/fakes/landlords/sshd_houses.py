"""Houses with a real sshd: each rented box has a home and a volume; a stop empties what the platform's facts say."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from leasehold.facts import profiles
from leasehold.model.platform.profile import YES, Profile
from tests.fakes.landlords.world import FakeBox
from tests.support.sshd import SshBox, free_port


class RealClock:
    """The machine's own time, for boxes that really run; it stands still long enough to bill up to it."""

    def __call__(self) -> float:
        return int(time.time() * 20) / 20

    def pass_s(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class SshdHouses:
    """Starts an sshd for each box; whether its home outlives a stop is a fact of its platform, the volume always does.

    For landlords that tell a port: Lambda and Paperspace tell an address only, and port 22 is not ours to take.
    """

    def __init__(self, folder: Path, *, keeps_volume: bool = True, platform: str = "runpod") -> None:
        self.folder = folder
        self.keeps_home = _keeps_home(profiles.load(platform))
        self.keeps_volume = keeps_volume  # False: survival is wrong on purpose
        self.boxes: dict[str, SshBox] = {}

    @property
    def workspace(self) -> Path:
        """The volume disk, where every box sees it: one box runs at a time."""
        return self.folder / "workspace"

    def start(self, box: FakeBox) -> tuple[str, int]:
        """Start its sshd, on another port than before, for the key that it was made with."""
        known = self.boxes.get(box.id)
        place = self.folder / box.id
        house = known or SshBox(place)
        house.home.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(parents=True, exist_ok=True)
        (place / "client_key.pub").write_text(box.public_key + "\n")
        house.port = free_port(house.port)
        house.start()
        self.boxes[box.id] = house
        return "127.0.0.1", house.port

    def stop(self, box: FakeBox) -> None:
        """Kill everything on it; what does not outlive a stop is emptied."""
        house = self.boxes.get(box.id)
        if house is None:
            return
        house.close()
        if not self.keeps_home:
            shutil.rmtree(house.home, ignore_errors=True)
        if not self.keeps_volume:
            shutil.rmtree(self.workspace, ignore_errors=True)

    def destroy(self, box: FakeBox) -> None:
        """Kill it and empty all of it."""
        self.stop(box)
        if box.id in self.boxes:
            shutil.rmtree(self.boxes[box.id].home, ignore_errors=True)
        shutil.rmtree(self.workspace, ignore_errors=True)

    def close(self) -> None:
        """End every box."""
        for house in self.boxes.values():
            house.close()


def _keeps_home(profile: Profile) -> bool:
    """Return whether the disk that holds the home folder outlives a stop."""
    homes = {"/", "/root", "~"}
    return any(tier.survives_stop == YES for tier in profile.tiers if homes & {tier.path, *tier.also})


@contextlib.contextmanager
def sshd_houses(folder: Path, *, keeps_volume: bool = True, platform: str = "runpod") -> Iterator[SshdHouses]:
    """Give houses, and end whatever runs in them."""
    houses = SshdHouses(folder, keeps_volume=keeps_volume, platform=platform)
    try:
        yield houses
    finally:
        houses.close()
