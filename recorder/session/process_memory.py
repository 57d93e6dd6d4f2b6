"""Memory of this process at the end of a step, by ways that cost next to nothing."""

import os
from pathlib import Path

import torch


class HostMemory:
    """Memory of the process, from a file of /proc that stays open."""

    def __init__(self) -> None:
        statm = Path("/proc/self/statm")
        self._fd = os.open(statm, os.O_RDONLY | os.O_CLOEXEC) if statm.exists() else None
        self._page = os.sysconf("SC_PAGE_SIZE")

    def now(self) -> dict[str, int]:
        """Columns of `steps`: what is resident, and what of that belongs to no file. Nothing where there is no /proc."""
        if self._fd is None:
            return {}
        _, resident, shared, *_ = map(int, os.pread(self._fd, 128, 0).split())
        return {"rss_bytes": resident * self._page, "anonymous_bytes": (resident - shared) * self._page}

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def device_memory() -> dict[str, int]:
    """Columns of `steps`: memory of the current CUDA device as the allocator counts it, no question to the device."""
    if not torch.cuda.is_initialized():
        return {}
    return {
        "cuda_allocated_bytes": torch.cuda.memory_allocated(),
        "cuda_reserved_bytes": torch.cuda.memory_reserved(),
        "cuda_peak_bytes": torch.cuda.max_memory_allocated(),
    }
