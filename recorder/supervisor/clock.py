"""The clock by which the kernel notes when a process began: it does not jump when the host's time is set."""

import os
import time
from pathlib import Path


def since_boot_s() -> float:
    """Seconds since the host started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def own_start_s() -> float:
    """When this process began, in the same seconds; the kernel counts hundredths."""
    stat = Path("/proc/self/stat").read_bytes()
    return int(stat.rpartition(b") ")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
