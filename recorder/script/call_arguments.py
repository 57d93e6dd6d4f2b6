"""What a module was called with and what it gave back: the tensors in it, by position or by the name of the argument; and in
which precision."""

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_MOST_TENSORS = 8
"""Tensors looked at in one output or argument list; a longer one is a data structure, not an activation."""


def tensors_in(value: Any) -> Iterator[tuple[int, Tensor]]:
    """The first tensors in an output or argument list, with their positions; looks two levels into tuples, lists, dicts."""
    if isinstance(value, Tensor):
        yield 0, value
        return
    position = 0
    for item in _items(value):
        for tensor in (item,) if isinstance(item, Tensor) else _items(item):
            if isinstance(tensor, Tensor):
                yield position, tensor
                position += 1
                if position == _MOST_TENSORS:
                    return


def _items(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value[:_MOST_TENSORS])
    if isinstance(value, dict):
        return tuple(value.values())[:_MOST_TENSORS]
    if hasattr(value, "__dataclass_fields__"):
        return tuple(getattr(value, f, None) for f in list(value.__dataclass_fields__)[:_MOST_TENSORS])
    return ()


def named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The first tensors of a call, named as the module's forward names its arguments."""
    names = _signature(type(module))
    for i, value in enumerate(args[:_MOST_TENSORS]):
        name = names[i] if i < len(names) else f"arg{i}"
        yield from _flat(name, value)
    for key, value in list(kwargs.items())[:_MOST_TENSORS]:
        yield from _flat(str(key), value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in list(value.items())[:_MOST_TENSORS]:
            if isinstance(item, Tensor):
                yield f"{name}.{key}", item
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value[:_MOST_TENSORS]):
            if isinstance(item, Tensor):
                yield f"{name}.{i}", item


def keyword_arguments() -> dict[str, Any]:
    """Keyword arguments of the module call whose global pre-hook is running.

    torch hands them to pre-hooks of a single module only, so they are read from the frame of ``Module._call_impl``.
    """
    frame = sys._getframe(1)
    for _ in range(6):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith("nn/modules/module.py") and "kwargs" in frame.f_locals:
            kwargs = frame.f_locals["kwargs"]
            return kwargs if isinstance(kwargs, dict) else {}
        frame = frame.f_back
    return {}


@functools.lru_cache(maxsize=256)
def _signature(kind: type[nn.Module]) -> list[str]:
    """Names of the positional arguments of a class's forward."""
    try:
        return [
            p.name
            for p in inspect.signature(kind.forward).parameters.values()
            if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}
        ][1:]
    except (TypeError, ValueError, AttributeError):  # of a ScriptModule there is none
        return []


def autocast_dtype() -> str | None:
    """dtype of autocast where it is on, for whatever device."""
    for device in ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",):
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return None
