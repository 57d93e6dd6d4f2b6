"""State that a script keeps in its own objects: statistics of its inputs, averages, counters of its schedules, the best so far.

Looked at where a pass over the training data begins, in the variables of the functions in progress. For a process of our own
alone: reading the variables of a frame keeps them alive.
"""

import hashlib
import math
import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from ...schemas.files.rehearsed import StateValue
from ..script.frames import is_users

_BEST = re.compile(
    r"(^|_)best(_|$)|^best|patience|bad_epochs"
    r"|^(max|min)_\w*(acc|loss|score|metric|error|f1|auc|map|iou|dice|ppl|perplexity|bleu|rouge|wer|cer|psnr|ssim)",
    re.IGNORECASE,
)
_KEEPS_STATE = re.compile(
    r"ema|average|normali[sz]|running|standardi[sz]|scal|sched|anneal|warm|queue|bank|memory|buffer", re.IGNORECASE
)
"""Names of classes whose numbers count as state, beside those that hold tensors or have a ``state_dict``."""
_LARGEST = 1 << 20
_MOST = 256
_NOT_LOOKED_INTO = (
    nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    Dataset,
    DataLoader,
    Sampler,
    type,
)


def script_state() -> dict[str, StateValue]:
    """Name → value, of the variables and one level of attributes in them."""
    found: dict[str, StateValue] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for name, value in frame.f_locals.items():
                _look(name, value, found)
                if len(found) >= _MOST:
                    return found
        frame = frame.f_back
    return found


def _look(name: str, value: Any, found: dict[str, StateValue]) -> None:
    if _is_number(value) or value is None:
        if _BEST.search(name):
            found.setdefault(name, _number(value))
        return
    if isinstance(value, _NOT_LOOKED_INTO) or not _of_the_script(value):
        return
    own = dict(vars(value))
    tensors = {k: v for k, v in own.items() if isinstance(v, Tensor) or _is_array(v)}
    counts = bool(tensors) or hasattr(value, "state_dict") or bool(_KEEPS_STATE.search(type(value).__name__))
    owner = type(value).__name__ if name == "self" else name
    for key, inner in own.items():
        if key in tensors:
            for state in _tensor(inner):
                found.setdefault(f"{owner}.{key}", state)
        elif (_is_number(inner) and (counts or _BEST.search(key))) or (inner is None and _BEST.search(key)):
            found.setdefault(f"{owner}.{key}", _number(inner))
        elif isinstance(inner, dict) and (counts or _BEST.search(key)):
            for inside, held in list(inner.items())[:16]:
                for state in _tensor(held):
                    found.setdefault(f"{owner}.{key}[{inside!r}]", state)


def _of_the_script(value: Any) -> bool:
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    return file is not None and is_users(file) and hasattr(value, "__dict__")


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (
        type(value).__module__ == "numpy" and hasattr(value, "__float__") and not value.shape
    )


def _is_array(value: Any) -> bool:
    """Whether it is an array of NumPy, which the script need not have."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _number(value: Any) -> StateValue:
    """``None`` stands for itself: it is what a best value often is before the first evaluation."""
    if value is None:
        return StateValue(digest="None", mean=None)
    number = float(value)
    return StateValue(digest=repr(number), mean=number if math.isfinite(number) else None)


def _tensor(value: Any) -> Iterator[StateValue]:
    if _is_array(value) and value.dtype.kind in "fiu":
        value = torch.from_numpy(value.copy())
    if isinstance(value, Tensor) and value.layout is torch.strided and 0 < value.numel() <= _LARGEST:
        plain = value.detach().cpu().double()
        digest = hashlib.blake2b(plain.numpy().tobytes(), digest_size=8).hexdigest()
        mean = float(plain.mean())
        yield StateValue(digest=digest, mean=mean if math.isfinite(mean) else None, size=value.numel())
