"""A driver's library for machines without a card: compiled C that answers from a text file, call by call.

Each line of the file is a card: util used_mib total_mib sm_mhz sm_max power_mw temp reasons ecc rows_failed pid code.
`code` other than 0 is what every call about that card answers. A line `hang` makes the driver hang, `broken` makes
its start fail with 999. Functions of old drivers only, when compiled with OLD.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Dict, Optional

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct card { unsigned util, used, total, sm, most, power, temp, reasons, ecc, failed, pid, code; };
static struct card cards[64];
static unsigned count;
static int load(void) {
    FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : STATE, "r");
    char line[256];
    count = 0;
    if (!file) return 9;
    while (count < 64 && fgets(line, sizeof line, file)) {
        struct card *c = &cards[count];
        if (!strncmp(line, "hang", 4)) for (;;) sleep(1000);
        if (!strncmp(line, "broken", 6)) { fclose(file); return 999; }
        if (sscanf(line, "%u %u %u %u %u %u %u %u %u %u %u %u", &c->util, &c->used, &c->total, &c->sm, &c->most,
                   &c->power, &c->temp, &c->reasons, &c->ecc, &c->failed, &c->pid, &c->code) == 12) count++;
    }
    fclose(file);
    return 0;
}
#define CARD ((struct card *) handle)
#define GUARD if (CARD->code) return CARD->code
#ifdef OLD
#define NEWER(name) name
#else
#define NEWER(name) name ## _v2
#endif
int NEWER(nvmlInit)(void) { return load(); }
int nvmlShutdown(void) { return 0; }
int NEWER(nvmlDeviceGetCount)(unsigned *n) { *n = count; return 0; }
int NEWER(nvmlDeviceGetHandleByIndex)(unsigned i, void **handle) { *handle = &cards[i]; return 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { GUARD; snprintf(text, size, "NVIDIA Fake"); return 0; }
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *u) { GUARD; u[0] = CARD->util; u[1] = 0; return 0; }
int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *v) { GUARD; *v = CARD->sm; return type == 1 ? 0 : 2; }
int nvmlDeviceGetMaxClockInfo(void *handle, unsigned type, unsigned *v) { GUARD; *v = CARD->most; return 0; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *v) { GUARD; *v = CARD->power; return 0; }
int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *v) { GUARD; *v = CARD->temp; return 0; }
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *m) {
    GUARD; m->total = (unsigned long long) CARD->total << 20; m->used = (unsigned long long) (CARD->used + 600) << 20;
    return 0;
}
struct process_v1 { unsigned pid; unsigned long long bytes; };
struct process { unsigned pid; unsigned long long bytes; unsigned gi, ci; };
#ifdef OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *v) {
    GUARD; *v = CARD->reasons; return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void *handle, unsigned *n, struct process_v1 *p) {
    GUARD; *n = CARD->pid ? 1 : 0; p[0].pid = CARD->pid; p[0].bytes = ~0ULL; return 0;
}
#else
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *m) {
    GUARD;
    if (m->version != (sizeof *m | 2 << 24)) return 25;
    m->total = (unsigned long long) CARD->total << 20; m->used = (unsigned long long) CARD->used << 20;
    return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *v) { GUARD; *v = CARD->reasons; return 0; }
int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int since, unsigned long long *v) {
    GUARD; *v = kind == 1 ? CARD->ecc : 0; return 0;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
    GUARD; *c = 0; *u = CARD->failed; *pending = 0; *failed = CARD->failed; return 0;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *p) {
    GUARD; p->domain = 0; p->bus = 0x40 + (unsigned) (CARD - cards); p->device = 0; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *n, struct process *p) {
    GUARD; *n = CARD->pid ? 1 : 0; p[0].pid = CARD->pid; p[0].bytes = 1ULL << 30; p[0].gi = p[0].ci = 0; return 0;
}
#endif
"""
_COLUMNS = ("util", "used", "total", "sm", "most", "power", "temp", "reasons", "ecc", "failed", "pid", "code")
_CARD = {
    "util": 97, "used": 20000, "total": 143771, "sm": 1500, "most": 1980, "power": 687100, "temp": 54, "reasons": 4,
    "ecc": 0, "failed": 0, "pid": 0, "code": 0,
}  # fmt: skip


def missing_compiler() -> Optional[str]:
    """Say what is missing to build it."""
    return None if shutil.which("cc") else "no cc here (Debian: apt-get install gcc libc6-dev)"


class FakeNvml:
    """A library in a folder, and the cards it shows."""

    def __init__(self, folder: Path, old: bool = False) -> None:
        self.folder = folder
        self.path = folder / "libnvidia-ml.so.1"
        self._state = folder / "cards.txt"
        source = folder / "fake_nvml.c"
        source.write_text(_SOURCE)
        wanted = ["-DOLD"] if old else []
        state = '-DSTATE="%s"' % self._state
        asked = ["cc", "-shared", "-fPIC", "-O0", "-w", state, *wanted, "-o", str(self.path), str(source)]
        subprocess.run(asked, check=True)
        self.show(self.card())

    @staticmethod
    def card(**figures: int) -> Dict[str, int]:
        """One card, like a busy H200 but for these figures."""
        return dict(_CARD, **figures)

    def show(self, *cards: Dict[str, int]) -> None:
        """Have these cards from now on."""
        self._state.write_text("".join(" ".join(str(card[name]) for name in _COLUMNS) + "\n" for card in cards))

    def hang(self) -> None:
        """Let every call wait for ever."""
        self._state.write_text("hang\n")

    def break_down(self) -> None:
        """Let the driver refuse to start."""
        self._state.write_text("broken\n")
