"""Calls of models, held so that they can be run once more while their tensors still exist, and no longer.

Tensors and other objects are held weakly; only numbers, strings and the like, and the shape of the argument lists, are kept.
"""

import enum
import weakref
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import torch
from torch import Tensor, nn

from .frames import Place

_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), type, slice, range, enum.Enum, torch.Size, torch.dtype, torch.device,
    torch.layout, torch.memory_format, BuiltinFunctionType, type(Ellipsis),
)  # fmt: skip
_MOST_ITEMS = 256
_DEEPEST = 6


class GoneError(Exception):
    """Something that was held weakly does not exist any more, or cannot be had again; says what."""


class _Weak:
    """One object, held weakly; for a tensor with the version it had."""

    __slots__ = ("changed_from", "ref", "what")

    def __init__(self, value: Any, what: str) -> None:
        self.what = what
        try:
            self.ref: weakref.ref[Any] | None = weakref.ref(value)
        except TypeError:
            self.ref = None

    def get(self) -> Any:
        value = self.ref() if self.ref is not None else None
        if value is None:
            raise GoneError(f"{self.what} does not exist any more")
        return value


class _Sequence:
    """A tuple or list of held values."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: type, items: list[Any]) -> None:
        self.kind = kind
        self.items = items


class _Dict:
    """A dict of held values."""

    __slots__ = ("items",)

    def __init__(self, items: dict[Any, Any]) -> None:
        self.items = items


def hold(value: Any, what: str, depth: int = 0) -> Any:
    """Hold a value weakly, for ``taken_up``."""
    if isinstance(value, Tensor):
        return _Weak(value, what)
    if isinstance(value, _PLAIN):
        return value
    if depth < _DEEPEST:
        kind = type(value)
        if kind is tuple or kind is list or hasattr(value, "_fields"):
            if len(value) <= _MOST_ITEMS:
                return _Sequence(kind, [hold(v, f"{what}[{i}]", depth + 1) for i, v in enumerate(value)])
        elif kind is dict and len(value) <= _MOST_ITEMS:
            return _Dict({k: hold(v, f"{what}[{k!r}]", depth + 1) for k, v in value.items()})
    return _Weak(value, what)


def taken_up(held: Any) -> Any:
    """The value that was held. Raises GoneError."""
    if isinstance(held, _Weak):
        return held.get()
    if isinstance(held, _Sequence):
        items = [taken_up(v) for v in held.items]
        if held.kind is list:
            return items
        return tuple(items) if held.kind is tuple else held.kind(*items)
    if isinstance(held, _Dict):
        return {k: taken_up(v) for k, v in held.items.items()}
    return held


def still_there(held: Any, missing: list[str]) -> Any:
    """The value as far as it still exists: what is gone is None, and named in ``missing``."""
    if isinstance(held, _Weak):
        try:
            return held.get()
        except GoneError:
            missing.append(f"{held.what}: does not exist any more")
            return None
    if isinstance(held, _Sequence):
        return [still_there(v, missing) for v in held.items]
    if isinstance(held, _Dict):
        return {k: still_there(v, missing) for k, v in held.items.items()}
    return held


def copied(value: Any, copies: dict[int, Tensor], depth: int = 0) -> Any:
    """A copy for a second run: tensors cloned (once each, noted in ``copies``), containers rebuilt, plain values as they are.

    Raises GoneError for an object of which nobody knows how to copy it: running with it could change it.
    """
    if isinstance(value, Tensor):
        known = copies.get(id(value))
        if known is None:
            known = value.detach().clone()
            if value.requires_grad:
                known.requires_grad_(True)
            copies[id(value)] = known
        return known
    if isinstance(value, (*_PLAIN, nn.Module, FunctionType)):
        return value
    if depth < _DEEPEST:
        kind = type(value)
        if kind is tuple or kind is list:
            return kind(copied(v, copies, depth + 1) for v in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(copied(v, copies, depth + 1) for v in value))
        if kind is dict:
            return {k: copied(v, copies, depth + 1) for k, v in cast("dict[Any, Any]", value).items()}
        if hasattr(value, "__dict__") and not callable(value) and not isinstance(value, weakref.ref):
            twin = (
                object.__new__(cast("type[Any]", kind))
                if not isinstance(value, Mapping) or hasattr(value, "data")
                else None
            )
            if twin is not None:
                twin.__dict__.update({k: copied(v, copies, depth + 1) for k, v in vars(value).items()})
                return twin
    raise GoneError(f"an argument of type {type(value).__name__} cannot be copied")


class HeldCall:
    """One call of a model or of a loss module, by the script's own code."""

    __slots__ = ("args", "autocast", "cuda_rng", "kwargs", "module_id", "name", "place", "ref", "rng", "training")

    def __init__(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        module_id: int | None,
        place: Place | None,
    ) -> None:
        self.ref = weakref.ref(module)
        self.name = type(module).__name__
        self.args = [hold(value, f"argument {i}") for i, value in enumerate(args)]
        self.kwargs = {key: hold(value, f"argument {key}") for key, value in kwargs.items()}
        self.module_id = module_id
        self.place = place
        self.training = module.training
        self.rng = torch.default_generator.get_state()
        self.cuda_rng = _cuda_rng()
        self.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in (("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",))
        ]

    def arguments(self, missing: list[str]) -> dict[str, Any]:
        """Arguments by position or name, as far as they still exist."""
        found = {str(i): still_there(value, missing) for i, value in enumerate(self.args)}
        return found | {key: still_there(value, missing) for key, value in self.kwargs.items()}


def _cuda_rng() -> Tensor | None:
    """State of the current device's generator, which lies on the host; None inside a CUDA graph."""
    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return None
    return torch.cuda.default_generators[torch.cuda.current_device()].get_state()
