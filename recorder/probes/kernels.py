"""Kernels that give the same bits twice, while trials are compared: on CUDA the usual ones add in an order that changes."""

import os
from collections.abc import Generator
from contextlib import contextmanager

import torch

WORKSPACE = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""What cuBLAS reads when it is first used (torch.use_deterministic_algorithms)."""


@contextmanager
def repeatable_kernels() -> Generator[None]:
    """Choose them where CUDA is in use, and go back to the script's choice. An operator without such a kernel keeps its own."""
    if not torch.cuda.is_initialized():
        yield
        return
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.deterministic
    was, only_warned = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    workspace = {name: os.environ.get(name) for name in WORKSPACE}
    os.environ |= WORKSPACE
    cudnn.benchmark, cudnn.deterministic = False, True
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before
        torch.use_deterministic_algorithms(was, warn_only=only_warned)
        for name, value in workspace.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
