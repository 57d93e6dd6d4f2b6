"""A sample that is another one when it is read again, because reading changes what its data set keeps."""

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset

from ...schemas.files.probe_report import ProbeResult
from ..script.frames import is_users
from .child_process import NoAnswerError, in_a_child
from .stage import tensors_of
from .trial import result, untried

NAME = "sample-again"

_READ = 4
"""Samples that are read again, and as many others in between."""
_SECONDS = 3.0
_OBJECTS = 20_000
_DEPTH = 6
_ELEMENTS = 1 << 25
"""Numbers of all arrays that are copied: 128 MB of float32."""
_FEWEST = 3
"""Different values from which a line through two points says something. Arithmetic."""
_PARTS = 4
"""Channels of an image, sides of a box: each may be changed by a number of its own."""
_ROUNDING = 1e-4
"""Share of an array's size by which float32 may miss a line after several operations in place."""

_SMALLEST = torch.finfo(torch.float32).tiny
"""Below it float32 has fewer digits. Arithmetic."""


def judge(dataset: Any) -> ProbeResult | None:
    """Read samples, others, and the same samples again, with equal random numbers; None where torch's own code reads them."""
    if isinstance(dataset, IterableDataset) or only_torchs(dataset):
        return None
    try:
        found = in_a_child(lambda: _look(dataset), _SECONDS, dataset)
    except NoAnswerError as e:
        return untried(NAME, "reading-failed", error=str(e))
    code = found.pop("code")
    return result(NAME, {"sample-changed": "doubtful", "sample-same": "passed"}.get(code, "untried"), code, **found)


def only_torchs(dataset: Any) -> bool:
    while type(dataset) is Subset:
        dataset = dataset.dataset
    if type(dataset) is ConcatDataset:
        return all(only_torchs(d) for d in dataset.datasets)
    return type(dataset) is TensorDataset


def _look(dataset: Any) -> dict[str, Any]:
    size = len(dataset)
    again = list(range(min(_READ, size)))
    others = list(range(len(again), min(2 * _READ, size))) or again
    kept = dict(_arrays(dataset))
    before = {path: array.clone() for path, array in kept.items()}
    first = _read(dataset, again)
    if not all(first):
        raise NoAnswerError("a sample holds no numbers")
    _read(dataset, others)
    second = _read(dataset, again)
    differing = _difference(first, second)
    if differing is None:
        return {"code": "sample-same", "samples": len(again)}
    path = next((p for p, array in kept.items() if _moved_on_a_line(before[p], array)), None)
    if path is None:
        return {"code": "sample-by-chance"}
    after = _size(kept[path])
    for p, array in kept.items():
        array.copy_(before[p])
    if _difference(first, _read(dataset, again)) is not None:
        return {"code": "sample-by-chance"}
    index, field, share = differing
    return {
        "code": "sample-changed", "index": index, "field": field, "share": share, "path": path,
        "before": _size(before[path]), "after": after,
    }  # fmt: skip


def _read(dataset: Any, indices: list[int]) -> list[list[Tensor]]:
    """Copies of the numbers of samples, the random generators of the process set to one place before each."""
    read: list[list[Tensor]] = []
    for i in indices:
        set_seeds(i)
        read.append([t.detach().clone() for t in tensors_of(as_tensors(dataset[i]))])
    return read


def set_seeds(seed: int) -> None:
    """Of the process's generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def as_tensors(value: Any, depth: int = 0) -> Any:
    """A sample with tensors in place of arrays and numbers."""
    if isinstance(value, dict):
        return {k: as_tensors(v, depth + 1) for k, v in value.items()} if depth < _DEPTH else None
    if isinstance(value, list | tuple):
        return [as_tensors(v, depth + 1) for v in value] if depth < _DEPTH else None
    if isinstance(value, bool | int | float):
        return torch.tensor(value)
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "biuf":
        return torch.as_tensor(value.copy() if hasattr(value, "copy") else value)
    return value


def _difference(one: list[list[Tensor]], other: list[list[Tensor]]) -> tuple[int, int, float] | None:
    """The first sample and field that differ, and by which share of its values' size."""
    for i, (before, after) in enumerate(zip(one, other, strict=True)):
        if [t.shape for t in before] != [t.shape for t in after]:
            return i, 0, 1.0
        for field, (a, b) in enumerate(zip(before, after, strict=True)):
            if not torch.equal(a.nan_to_num(), b.nan_to_num()):
                apart = _size(a.double() - b.double())
                return i, field, apart / max(_size(a), _size(b), 1e-30)
    return None


def _size(tensor: Tensor) -> float:
    """Root mean square."""
    return float(tensor.double().nan_to_num().square().mean().sqrt())


def _moved_on_a_line(before: Tensor, after: Tensor) -> bool:
    """Whether an array was scaled or shifted as a whole, or each of its columns or planes was.

    A buffer of what was read last, a list that is shuffled and a running mean do not become what they are that way.
    """
    if torch.equal(before, after):
        return False
    dims = [d for d in {0, before.dim() - 1} if before.dim() > 1 and before.shape[d] <= _PARTS]
    parts = [[(before, after)]]
    parts += [list(zip(before.unbind(d), after.unbind(d), strict=True)) for d in dims]
    return any(all(_on_a_line(a.double().reshape(-1), b.double().reshape(-1)) for a, b in part) for part in parts)


def _on_a_line(before: Tensor, after: Tensor) -> bool:
    if len(torch.unique(before)) < _FEWEST or not bool(before.isfinite().all() & after.isfinite().all()):
        return False
    x, y = before - before.mean(), after - after.mean()
    slope = float(x @ y) / float(x @ x)
    scale = float(after.abs().max())
    apart = float((y - slope * x).abs().max())
    return slope > 0 and apart <= _ROUNDING * min(scale, float(y.abs().max())) + _SMALLEST


def _arrays(dataset: Any) -> Iterator[tuple[str, Tensor]]:
    """Arrays of floating point numbers that a data set holds, or the globals of its module, as tensors of the same memory."""
    left = [_OBJECTS, _ELEMENTS]
    seen: set[int] = set()
    yield from _inside(dataset, "dataset", seen, left, 0)
    module = sys.modules.get(type(dataset).__module__)
    if module is not None and is_users(getattr(module, "__file__", None) or "<"):
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor) or type(value).__module__ == "numpy":
                yield from _inside(value, name, seen, left, _DEPTH)


def _inside(value: Any, path: str, seen: set[int], left: list[int], depth: int) -> Iterator[tuple[str, Tensor]]:
    left[0] -= 1
    if left[0] < 0 or id(value) in seen or isinstance(value, type | nn.Module | str | bytes | int | float | None):
        return
    seen.add(id(value))
    shared = _shared(value)
    if shared is not None:
        left[1] -= shared.numel()
        if left[1] >= 0:
            yield path, shared
        return
    if depth == _DEPTH:
        return
    if isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _inside(inner, f"{path}[{i}]", seen, left, depth + 1)
    elif isinstance(value, dict):
        for key, inner in list(value.items()):
            yield from _inside(inner, f"{path}[{key!r}]", seen, left, depth + 1)
    elif isinstance(held := getattr(value, "__dict__", None), dict):
        for key, inner in list(held.items()):
            yield from _inside(inner, f"{path}.{key}", seen, left, depth + 1)


def _shared(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        plain = value.detach()
        usable = plain.is_floating_point() and plain.device.type == "cpu" and plain.layout is torch.strided
        return plain if usable and plain.numel() >= _FEWEST else None
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.size < _FEWEST:
        return None
    usable = value.dtype.kind == "f" and value.dtype.itemsize in {4, 8} and value.dtype.isnative
    if not usable or not value.flags.writeable or any(stride < 0 for stride in value.strides):
        return None
    return torch.from_numpy(value)
