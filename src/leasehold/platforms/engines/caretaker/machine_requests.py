"""Requests about the machine itself: identity, readings, checks before a launch, disks, cards, restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from leasehold.kit.wire.messages import NoteFound, ProbeAnswer, Witnessed
    from leasehold.transport.wire import Wire


class BoxRequests:
    """Identify the machine and measure it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def probe(self) -> ProbeAnswer:
        """Return the box's identity and location."""
        return cast("ProbeAnswer", self._wire.ask("probe"))

    def machine(self, also: Sequence[str] = ()) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return what tells this machine from others, and our other roots there: {root, runs, problem}."""
        answers = list(self._wire.objects("machine", also=list(also)))
        return dict(answers[0]["machine"]), answers[1:]

    def readings(
        self, paths: Sequence[str] | None = None, signs: Sequence[tuple[str, str]] | None = None
    ) -> dict[str, Any]:
        """Measure memory, cards and the disks of these paths; check for these signs of a platform."""
        asked: dict[str, Any] = {"paths": paths, "signs": signs}
        return self._wire.ask("readings", **{key: value for key, value in asked.items() if value is not None})

    def probe_tier(self, path: str) -> str:
        """Write, read and remove a small file in a folder; return what went wrong."""
        return str(self._wire.ask("probe_tier", path=path)["problem"])

    def hogs(self, path: str, limit_s: float) -> dict[str, Any]:
        """List what uses the most space below a path, as far as the limit allows."""
        return self._wire.ask("hogs", path=path, limit_s=limit_s)

    def adoptable(self, young_s: float) -> Iterator[dict[str, Any]]:
        """Yield what may be training that was started without us, older than this, the likeliest first."""
        return self._wire.objects("adoptable", young_s=young_s)


class CheckRequests:
    """Test what a job needs before it is launched."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def environment(
        self, command: str, env: Mapping[str, str], modules: Sequence[str], platform: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Ask the interpreter that a command would use what it imports and sees."""
        return self._wire.ask(
            "check_env", command=command, env=dict(env), modules=list(modules), platform=dict(platform)
        )

    def secrets(
        self, secrets: Mapping[str, str], env: Mapping[str, str], platform: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Have the box ask the trackers who owns these keys: {answers}."""
        return self._wire.ask("check_secrets", secrets=dict(secrets), env=dict(env), platform=dict(platform))

    def scheduler(self, slurm: Mapping[str, Any]) -> dict[str, Any]:
        """Have the cluster's scheduler check a submission without making it."""
        return self._wire.ask("slurm_rehearse", slurm=dict(slurm))

    def notices(self, sends: Sequence[Mapping[str, Any]], platform: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Have the box send notices; it keeps none of them."""
        answer = self._wire.ask("send_notices", sends=list(sends), platform=dict(platform))
        return [item for item in answer.get("results", []) if isinstance(item, dict)]


class NoteRequests:
    """Leave notes on disks, to find out who else sees them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def leave_note(self, path: str, name: str, text: str) -> str:
        """Leave a note on a shared disk; return what went wrong."""
        return str(self._wire.ask("leave_note", path=path, name=name, text=text)["problem"])

    def find_note(self, path: str, name: str, wait_s: float) -> NoteFound:
        """Look for a note that another box left: {text, disk}, the text None if it did not arrive in time."""
        return cast("NoteFound", self._wire.ask("find_note", path=path, name=name, wait_s=wait_s))

    def drop_note(self, path: str, name: str) -> str:
        """Remove a note; a missing one is not an error."""
        return str(self._wire.ask("drop_note", path=path, name=name)["problem"])

    def witness(self, notes: Sequence[Mapping[str, Any]], limit_s: float) -> Witnessed:
        """Have the box look for notes that home left beside its results: {machine, seen, below, whole, inside}."""
        return cast("Witnessed", self._wire.ask("witness", notes=list(notes), limit_s=limit_s))


class CareRequests:
    """Survey disks and cards, and clear them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def disk_survey(
        self, paths: Sequence[str], variables: Mapping[str, str], limit_s: float
    ) -> Iterator[dict[str, Any]]:
        """Yield {units} and {at, entries} as they are found, then how complete the survey is."""
        return self._wire.objects("disk_survey", paths=list(paths), variables=dict(variables), limit_s=limit_s)

    def quarantine(self, targets: Sequence[Mapping[str, Any]], *, delete: bool) -> Iterator[dict[str, Any]]:
        """Quarantine or delete targets; yield the result of each, then the sum."""
        return self._wire.objects("quarantine", targets=list(targets), delete=delete)

    def undo_quarantine(self, stamp: str) -> Iterator[dict[str, Any]]:
        """Restore what a quarantine holds; yield the result of each target, then the sum."""
        return self._wire.objects("undo_quarantine", stamp=stamp)

    def empty_quarantine(self, stamp: str) -> Iterator[dict[str, Any]]:
        """Delete what a quarantine holds; yield the result of each target, then the sum."""
        return self._wire.objects("empty_quarantine", stamp=stamp)

    def gpu_survey(self, samples: int) -> Iterator[dict[str, Any]]:
        """Yield {sample, of} as the cards are sampled, then all findings."""
        return self._wire.objects("gpu_survey", samples=samples)

    def end_holders(self, targets: Sequence[Mapping[str, Any]], grace_s: float) -> list[dict[str, Any]]:
        """End processes that hold cards unused; the box checks each again before."""
        return list(self._wire.ask("end_holders", targets=list(targets), grace_s=grace_s)["results"])


class PowerRequests:
    """Turn the box off, and have runs continue after it restarts."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def power_off(self, command: Sequence[str], home: str) -> None:
        """Have the box turn itself off a moment after it answered; refused while anything of ours lives on it."""
        self._wire.ask("power_off", command=list(command), home=home)

    def hooks(self) -> list[dict[str, Any]]:
        """List the hooks that continue runs after a restart."""
        return list(self._wire.objects("relaunch_hooks", act="list"))

    def install_hooks(self, runs: Sequence[str], ways: Sequence[str]) -> list[dict[str, Any]]:
        """Install a hook for each of these runs by the first method that works."""
        return list(self._wire.objects("relaunch_hooks", act="install", runs=list(runs), ways=list(ways)))

    def remove_hooks(self) -> list[dict[str, Any]]:
        """Remove every hook of ours."""
        return list(self._wire.objects("relaunch_hooks", act="remove"))
