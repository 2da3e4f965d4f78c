"""Run nvidia-smi: cards with every field it knows, the processes it lists, the newest CUDA it can run."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .cards import Answer

_TIMEOUT_S = 30.0
_MIB = 1 << 20
_FIELDS = {  # our name -> the tool's; an older driver answers without the fields that it does not know
    "index": "index",
    "uuid": "uuid",
    "name": "name",
    "bus": "pci.bus_id",
    "driver": "driver_version",
    "persistence": "persistence_mode",
    "memory_total_bytes": "memory.total",
    "memory_used_bytes": "memory.used",
    "memory_reserved_bytes": "memory.reserved",
    "util_percent": "utilization.gpu",
    "temperature_c": "temperature.gpu",
    "sm_mhz": "clocks.current.sm",
    "sm_mhz_max": "clocks.max.sm",
    "power_w": "power.draw",
    "power_limit_w": "enforced.power.limit",
    "power_default_w": "power.default_limit",
    "pcie_width": "pcie.link.width.current",
    "pcie_width_max": "pcie.link.width.max",
    "pcie_gen": "pcie.link.gen.current",
    "pcie_gen_max": "pcie.link.gen.max",
    "ecc": "ecc.mode.current",
    "ecc_uncorrected": "ecc.errors.uncorrected.volatile.total",
    "ecc_corrected": "ecc.errors.corrected.volatile.total",
    "ecc_uncorrected_ever": "ecc.errors.uncorrected.aggregate.total",
    "pages_retired": "retired_pages.double_bit.count",
    "pages_pending": "retired_pages.pending",
    "rows_uncorrectable": "remapped_rows.uncorrectable",
    "rows_pending": "remapped_rows.pending",
    "rows_failed": "remapped_rows.failure",
    "recovery_action": "gpu_recovery_action",
}
_REASONS = {  # read together as `reasons`
    "hw_slowdown": "clocks_throttle_reasons.hw_slowdown",
    "hw_thermal_slowdown": "clocks_throttle_reasons.hw_thermal_slowdown",
    "hw_power_brake": "clocks_throttle_reasons.hw_power_brake_slowdown",
    "sw_thermal_slowdown": "clocks_throttle_reasons.sw_thermal_slowdown",
    "sw_power_cap": "clocks_throttle_reasons.sw_power_cap",
}
_HARMLESS = "sw_power_cap"  # usual at full load: it does not show whether the driver reports slowdowns
_IN_MIB = ("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes")
_EVERYTHING = (*_FIELDS, "reasons")
_OVERVIEW = (
    "index", "name", "memory_total_bytes", "memory_used_bytes", "driver", "util_percent", "temperature_c",
)  # fmt: skip
SAMPLED = ("index", "util_percent", "temperature_c", "sm_mhz", "power_w", "memory_used_bytes", "reasons")
PATROLLED = (
    "index", "name", "util_percent", "memory_used_bytes", "memory_total_bytes", "sm_mhz", "sm_mhz_max", "power_w",
    "temperature_c", "ecc_uncorrected", "reasons",
)  # fmt: skip
_WORDS = ("uuid", "name", "bus", "driver", "recovery_action")  # never numbers
_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_NEWER_NAME = ("clocks_throttle_reasons.", "clocks_event_reasons.")
_YES = ("active", "yes", "enabled")
_NO = ("not active", "no", "disabled")
_CUDA = re.compile(r"CUDA Version\s*:\s*(\d+\.\d+)")


class Listed(NamedTuple):
    """A process that the driver itself lists on a card."""

    pid: int
    uuid: str
    used_bytes: Optional[int]


def cards(names: Sequence[str] = _EVERYTHING) -> Answer:
    """Query each card once; omit fields that this driver does not know, never guess them."""
    fields = {name: _FIELDS[name] for name in names if name in _FIELDS}
    fields.update(_REASONS if "reasons" in names else {})
    for _ in range(2 * len(fields)):
        said, problem = run_tool(["--query-gpu=" + ",".join(fields.values()), "--format=csv,noheader,nounits"])
        unknown = _BAD_FIELD.search(problem)
        if unknown is None:
            rows = [_row(list(fields), line) for line in said.splitlines() if line.strip()]
            strange = (
                "nvidia-smi answered something else than it was asked: %s" % said.splitlines()[0][:80] if rows else ""
            )
            kept = [row for row in rows if row]
            return Answer(kept, problem or ("" if kept else strange))
        fields = _without(fields, unknown.group(1))
    return Answer([], "nvidia-smi knows none of the fields asked for")


def overview() -> Answer:
    """List the cards with their memory, driver, use and temperature; None where the driver does not report it."""
    found = cards(_OVERVIEW)
    return Answer([dict(dict.fromkeys(_OVERVIEW), **card) for card in found.gpus], found.problem)


def listed() -> Tuple[List[Listed], str]:
    """List the processes that the driver reports, with their memory where known."""
    said, problem = run_tool(["--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits"])
    found = []
    for line in said.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[0].isdigit():
            used = int(words[2]) * _MIB if words[2].isdigit() else None
            found.append(Listed(int(words[0]), words[1], used))
    known = {item.pid for item in found}
    for pid in _drawing_too():
        if pid not in known:
            found.append(Listed(pid, "", None))
    return found, problem


def cuda_of_driver() -> str:
    """Return the newest CUDA that this driver can run; empty when it does not report one."""
    found = _CUDA.search(run_tool(["-q", "-d", "COMPUTE"])[0])
    return found.group(1) if found else ""


def run_tool(words: List[str]) -> Tuple[str, str]:
    """Run nvidia-smi; return its output, and why there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "", "nvidia-smi is not installed"
    try:
        done = subprocess.run(
            [tool] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", "nvidia-smi did not answer in %g s: the driver may hang" % _TIMEOUT_S
    except OSError as error:
        return "", "nvidia-smi could not be started: %s" % (error.strerror or error)
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode != 0 or _BAD_FIELD.search(said):
        first = said.splitlines()[0][:200] if said else "nothing"
        return "", "nvidia-smi exited with %d: %s" % (done.returncode, first)
    return said, ""


def _drawing_too() -> List[int]:
    """Find processes that only draw: they are in no list of compute processes, and are no zombies either."""
    said, _ = run_tool(["pmon", "-c", "1"])
    rows = [line.split() for line in said.splitlines() if not line.startswith("#")]
    return [int(words[1]) for words in rows if len(words) > 2 and words[1].isdigit()]


def _without(fields: Dict[str, str], unknown: str) -> Dict[str, str]:
    """Query the newer field name first, then leave the field out."""
    old, new = _NEWER_NAME
    renamed = new + unknown[len(old) :] if unknown.startswith(old) else None
    kept = {name: renamed if field == unknown else field for name, field in fields.items()}
    return {name: field for name, field in kept.items() if field is not None}


def _row(names: List[str], line: str) -> Dict[str, Any]:
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(names):
        return {}
    row = {name: word if name in _WORDS else _value(word) for name, word in zip(names, words)}
    for name in _IN_MIB:
        if row.get(name) is not None:
            row[name] *= _MIB
    given = {name: row.pop(name) for name in _REASONS if name in row}
    if any(value is not None for name, value in given.items() if name != _HARMLESS):
        row["reasons"] = [name for name, value in given.items() if value]
    return row


def _value(word: str) -> Any:
    """Return a number, yes, no, or None for every form of "not available"."""
    low = word.strip("[]").lower()
    if low in _YES or low in _NO:
        return low in _YES
    try:
        number = float(word)
    except ValueError:
        return None
    return int(number) if number == int(number) else number
