"""Which of the processes of a training this one is, and what is known of it when its recording begins."""

import contextlib
import os
import socket
from pathlib import Path
from time import time_ns
from typing import Any

import torch

from ...schemas.files.json_text import json_text
from ...schemas.files.layout import unrecorded_path
from ..base.processors import usable_processors
from ..base.terminal import warn


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: from torch.distributed where it is up, else from the launcher's environment, else 0 of 1."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1


def rank_row(world_size: int) -> dict[str, Any]:
    """Columns of this process's row of `ranks`."""
    devices = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    )
    return {
        "world_size": world_size,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "time_ns": time_ns(),
        "torch_version": torch.__version__,
        "devices": json_text(devices),
        "threads": torch.get_num_threads(),
        "processors": usable_processors(),
        "seed": torch.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF,
    }


def say_unrecorded(run: Path, rank: int) -> None:
    """Another process records this rank already: say so on the terminal and, for the record of the run's end, in a file."""
    warn("rank-taken", f"another process already records rank {rank} of {run}; this one is not recorded")
    path = unrecorded_path(run, rank, os.getpid())
    with contextlib.suppress(OSError):  # it has been said on the terminal
        path.parent.mkdir(exist_ok=True)
        path.touch()
