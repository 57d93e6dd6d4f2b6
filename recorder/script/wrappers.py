"""What wraps a model or a tensor: all that is known of DistributedDataParallel, FSDP, torch.compile and DTensor.

Support for a further framework begins here.
"""

from typing import TypeVar, cast

import torch
from torch import Tensor, nn

WRAPPERS = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}
"""Classes that wrap a model as ``.module``; OptimizedModule of torch.compile wraps it as ``._orig_mod``."""

_PLAIN = (Tensor, torch.nn.Parameter)

_T = TypeVar("_T", Tensor, Tensor | None)


def local(x: _T) -> _T:
    """This process's shard of a DTensor, without any communication; everything else as it is.

    What is measured of sharded weights, gradients and activations is each rank's own part: ranks can be added up later.
    """
    if type(x) in _PLAIN or x is None:
        return x
    return cast("_T", getattr(x, "_local_tensor", x)) if type(x).__name__ == "DTensor" else x


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, torch.compile and the like."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__ in WRAPPERS:
            inner = getattr(module, "module", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner
