"""The state of a training between two steps, as tensors and plain values: what a snapshot holds and how it is put back.

Read from the objects themselves, never through ``state_dict``, which a script may have made its own, and which communicates
where weights are sharded.
"""

import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...schemas.files.snapshot import Plain, SnapshotMeta
from ..session.registry import ModuleEntry
from ..tensors.tensor_file import DTYPES

_KINDS = (Tensor, nn.Parameter)


class UnfitError(Exception):
    """A state that is not kept, and why."""


def model_tensors(roots: Iterable[ModuleEntry], optimizers: Iterable[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Name → weights and buffers of all models, then what optimizers hold beside them; each once.

    Raises UnfitError for tensors of a kind that a copy does not hold: sharded, sparse, quantized or without a shape yet.
    """
    found: dict[str, Tensor] = {}
    known: set[int] = set()
    for root in roots:
        module = root.ref()
        if module is not None:
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if id(tensor) not in known:
                    known.add(id(tensor))
                    found[f"model/{root.model}/{name}"] = tensor
    for i, optimizer in enumerate(optimizers):
        for place, parameter in _places(optimizer):
            if id(parameter) not in known:
                known.add(id(parameter))
                found[f"held/{i}/{place}"] = parameter
    for name, tensor in found.items():
        _check(name, tensor)
    return found


def optimizer_tensors(optimizers: Iterable[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Name → what the optimizers know of their parameters, as far as it is tensors."""
    found: dict[str, Tensor] = {}
    for i, optimizer in enumerate(optimizers):
        for place, parameter in _places(optimizer):
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    _check(str(key), value)
                    found[f"optimizer/{i}/{place}/{key}"] = value
    return found


def _check(name: str, tensor: Tensor) -> None:
    if type(tensor) not in _KINDS or tensor.layout is not torch.strided or is_lazy(tensor):
        raise UnfitError(f"{name} is of type {type(tensor).__name__}")
    if tensor.dtype not in DTYPES:
        raise UnfitError(f"{name} is of type {tensor.dtype}")


def _places(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for g, group in enumerate(optimizer.param_groups):
        for i, parameter in enumerate(group["params"]):
            yield f"{g}.{i}", parameter


def plain(values: dict[Any, Any]) -> Plain:
    """Those of an object's values that JSON has; the rest is what the script makes again."""
    return {k: v for k, v in values.items() if isinstance(k, str) and k != "params" and _is_plain(v)}


def _is_plain(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, (bool, int, float, str)):
        return True
    return depth < 3 and isinstance(value, (list, tuple)) and all(_is_plain(v, depth + 1) for v in value)


def describe(
    meta: SnapshotMeta, optimizers: list[torch.optim.Optimizer], schedulers: list[Any], scalers: list[Any]
) -> dict[str, Tensor]:
    """Fill in what is no tensor of models; returns the small tensors among the rest, copied."""
    small: dict[str, Tensor] = {}
    meta.optimizers = [[plain(group) for group in o.param_groups] for o in optimizers]
    for i, optimizer in enumerate(optimizers):
        values = {place: plain(optimizer.state.get(p, {})) for place, p in _places(optimizer)}
        meta.optimizer_values.append({place: v for place, v in values.items() if v})
        for g, group in enumerate(optimizer.param_groups):
            if isinstance(group.get("lr"), Tensor):
                small[f"lr/{i}/{g}"] = group["lr"].detach().to("cpu", copy=True)
    meta.schedulers = [[plain(vars(s)) for s in _with_inner(scheduler)] for scheduler in schedulers]
    for i, scaler in enumerate(scalers):
        meta.scalers.append(plain(vars(scaler)))
        for name in ("_scale", "_growth_tracker"):
            if isinstance(getattr(scaler, name, None), Tensor):
                small[f"scaler/{i}/{name}"] = getattr(scaler, name).detach().to("cpu", copy=True)
    small["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_initialized():
        small |= {f"random/cuda.{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    version, state, gauss = random.getstate()
    meta.python_random = [version, list(state), gauss]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state(legacy=True)
        meta.numpy_random = [str(kind), keys.tolist(), *rest] if kind == "MT19937" else None
    return small


def _with_inner(scheduler: Any, depth: int = 0) -> Iterator[Any]:
    yield scheduler
    for inner in getattr(scheduler, "_schedulers", ()) if depth < 3 else ():
        yield from _with_inner(inner, depth + 1)


def put_back(
    meta: SnapshotMeta,
    kept: dict[str, Tensor],
    models: dict[str, Tensor],
    optimizers: list[torch.optim.Optimizer],
    schedulers: list[Any],
    scalers: list[Any],
) -> None:
    """Make a training's state that of a snapshot. Raises UnfitError where the two are not of one script."""
    missing = [n for n in models if n not in kept or kept[n].shape != models[n].shape]
    gone = [n for n in kept if n.startswith(("model/", "held/")) and n not in models]
    if missing or gone:
        raise UnfitError(f"the snapshot does not fit the script: {', '.join([*missing, *gone][:3])}")
    if len(meta.optimizers) != len(optimizers) or len(meta.schedulers) != len(schedulers):
        raise UnfitError("the script has other optimizers or schedulers than when the snapshot was made")
    with torch.no_grad():
        for name, tensor in models.items():
            tensor.copy_(kept[name])
    for i, (optimizer, groups) in enumerate(zip(optimizers, meta.optimizers, strict=True)):
        _put_optimizer_back(optimizer, i, groups, meta.optimizer_values[i], kept)
    for scheduler, values in zip(schedulers, meta.schedulers, strict=True):
        for part, own in zip(_with_inner(scheduler), values, strict=False):
            _set(part, own)
    for i, (scaler, values) in enumerate(zip(scalers, meta.scalers, strict=False)):
        _set(scaler, values)
        for name in ("_scale", "_growth_tracker"):
            tensor = getattr(scaler, name, None)
            if isinstance(tensor, Tensor) and f"scaler/{i}/{name}" in kept:
                tensor.copy_(kept[f"scaler/{i}/{name}"])


def set_random(meta: SnapshotMeta, kept: dict[str, Tensor]) -> None:
    """Put the random generators of the process back."""
    torch.set_rng_state(kept["random/cpu"])
    if torch.cuda.is_initialized() and "random/cuda.0" in kept:
        states = [kept[n] for n in sorted(kept) if n.startswith("random/cuda.")]
        torch.cuda.set_rng_state_all(states)
    if meta.python_random is not None:
        version, state, gauss = meta.python_random
        random.setstate((version, tuple(state), gauss))
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and meta.numpy_random is not None:
        kind, keys, *rest = meta.numpy_random
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))


def _put_optimizer_back(
    optimizer: torch.optim.Optimizer,
    i: int,
    groups: list[Plain],
    values: dict[str, Plain],
    kept: dict[str, Tensor],
) -> None:
    for g, (group, settings) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        group.update({k: tuple(v) if isinstance(group.get(k), tuple) else v for k, v in settings.items() if k in group})
        if isinstance(group.get("lr"), Tensor) and f"lr/{i}/{g}" in kept:
            group["lr"].copy_(kept[f"lr/{i}/{g}"])
    for place, parameter in _places(optimizer):
        start = f"optimizer/{i}/{place}/"
        own = {n.removeprefix(start): t for n, t in kept.items() if n.startswith(start)}
        if not own and place not in values:
            optimizer.state.pop(parameter, None)
            continue
        before = optimizer.state[parameter]
        for key, tensor in own.items():
            there = before.get(key)
            # a count of steps lies on the CPU, moments lie where the parameter does
            device = there.device if isinstance(there, Tensor) else parameter.device if tensor.dim() else tensor.device
            before[key] = tensor.to(device, copy=True)
        before.update(values.get(place, {}))


def _set(thing: Any, values: Plain) -> None:
    """Attributes that it has already: a file adds none."""
    for key, value in values.items():
        if key in vars(thing) and not callable(vars(thing)[key]):
            setattr(thing, key, tuple(value) if isinstance(vars(thing)[key], tuple) else value)
