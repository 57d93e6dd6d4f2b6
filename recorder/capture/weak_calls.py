"""Calls of models, held so that they can be run once more while their tensors still exist, and no longer.

Tensors and other objects are held weakly; only numbers, strings and the like, and the shape of the argument lists, are kept.
Arguments that are temporaries of the call, as in ``model(x, weight[keep])``, would be gone when the step is judged: tensors
outside the graph are kept until then, as far as an allowance of bytes reaches.
"""

import enum
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..script.frames import Place
from ..tensors.moments import measurable

_PLAIN = (
    bool, int, float, complex, str, bytes, type(None), type, slice, range, enum.Enum, torch.Size, torch.dtype, torch.device,
    torch.layout, torch.memory_format, BuiltinFunctionType, type(Ellipsis),
)  # fmt: skip
_MOST_ITEMS = 256
_DEEPEST = 6
_MOST_OUTPUTS = 16


class GoneError(Exception):
    """Something that was held weakly does not exist any more, or cannot be had again; says what."""


class Allowance:
    """Bytes that may still be kept alive."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def grants(self, tensor: Tensor) -> bool:
        """Whether a tensor may be kept: it brings no graph along, and its storage fits."""
        if not measurable(tensor) or tensor.grad_fn is not None or tensor.layout is not torch.strided:
            return False
        size = tensor.untyped_storage().nbytes()
        if size > self.left:
            return False
        self.left -= size
        return True


class _WeakArgument:
    """One object, held weakly; ``made`` says which call put it out, and as which of its outputs."""

    __slots__ = ("kept", "made", "ref", "view", "what")

    def __init__(self, value: Any, what: str, made: "Made | None" = None, allowance: "Allowance | None" = None) -> None:
        self.what = what
        self.kept: Tensor | None = None
        """The tensor itself, where it may be kept alive."""
        self.view: tuple[torch.Size, tuple[int, ...], int] | None = None
        held = value
        if isinstance(value, Tensor) and made is not None:
            whole = value._base if type(value) is Tensor else None
            if whole is not None and whole.dtype == value.dtype:
                # logits.view(-1, classes) is gone as soon as the loss is made, what it is a view of may not be
                held, self.view = whole, (value.shape, value.stride(), int(value.storage_offset()))
            if allowance is not None and allowance.grants(value):
                self.kept = value
        self.made = made.get(id(held)) if made is not None else None
        try:
            self.ref: weakref.ref[Any] | None = weakref.ref(held)
        except TypeError:
            self.ref = None

    def get(self, again: "Again | None" = None) -> Any:
        value = self.ref() if self.ref is not None else None
        if value is None and self.made is not None and again is not None:
            ref, position, of_whole = self.made
            call = ref()
            outputs = again.get(call, []) if call is not None else []
            value = outputs[position] if position < len(outputs) else None
            value = value._base if of_whole and value is not None else value
        if value is None:
            raise GoneError(f"{self.what} does not exist any more")
        return value if self.view is None else value.as_strided(*self.view)


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


def hold(value: Any, what: str, made: "Made", allowance: "Allowance | None", depth: int = 0) -> Any:
    """Hold a value for ``taken_up``: weakly beyond the allowance; ``made`` tells by id which tensors earlier calls put out."""
    if isinstance(value, Tensor):
        return _WeakArgument(value, what, made, allowance)
    if isinstance(value, _PLAIN):
        return value
    if depth < _DEEPEST:
        kind = type(value)
        if kind is tuple or kind is list or hasattr(value, "_fields"):
            if len(value) <= _MOST_ITEMS:
                return _Sequence(
                    kind, [hold(v, f"{what}[{i}]", made, allowance, depth + 1) for i, v in enumerate(value)]
                )
        elif kind is dict and len(value) <= _MOST_ITEMS:
            return _Dict({k: hold(v, f"{what}[{k!r}]", made, allowance, depth + 1) for k, v in value.items()})
    return _WeakArgument(value, what)


def taken_up(held: Any, again: "Again") -> Any:
    """The value that was held; an output that is gone is taken from the replay of the call that made it. Raises GoneError."""
    if isinstance(held, _WeakArgument):
        return held.get(again)
    if isinstance(held, _Sequence):
        items = [taken_up(v, again) for v in held.items]
        if held.kind is list:
            return items
        return tuple(items) if held.kind is tuple else held.kind(*items)
    if isinstance(held, _Dict):
        return {k: taken_up(v, again) for k, v in held.items.items()}
    return held


def still_there(held: Any, missing: list[str]) -> Any:
    """The value as far as it still exists: what is gone is None, and named in ``missing``."""
    if isinstance(held, _WeakArgument):
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

    __slots__ = (
        "__weakref__",
        "args",
        "autocast",
        "cuda_rng",
        "kept_bytes",
        "kwargs",
        "module_id",
        "name",
        "outputs",
        "place",
        "ref",
        "rng",
    )

    def __init__(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        module_id: int | None,
        place: Place | None,
        earlier: "Iterable[HeldCall]" = (),
        allowance: Allowance | None = None,
    ) -> None:
        made: Made = {
            id(tensor): (weakref.ref(call), position, of_whole)
            for call in earlier
            for position, of_whole, ref in call.outputs
            if (tensor := ref()) is not None
        }
        before = allowance.left if allowance is not None else 0
        self.ref = weakref.ref(module)
        self.name = type(module).__name__
        self.args = [hold(value, f"argument {i}", made, allowance) for i, value in enumerate(args)]
        self.kwargs = {key: hold(value, f"argument {key}", made, allowance) for key, value in kwargs.items()}
        self.kept_bytes = before - allowance.left if allowance is not None else 0
        self.module_id = module_id
        self.place = place
        self.outputs: list[tuple[int, bool, weakref.ref[Tensor]]] = []
        """Floating-point tensors that it put out, by position; with True what such a tensor is a view of."""
        self.rng = torch.default_generator.get_state()
        self.cuda_rng = _cuda_rng()
        self.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in (("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",))
        ]

    def returned(self, output: Any) -> None:
        """Note what the call put out."""
        for position, tensor in enumerate(islice(floats_in(output), _MOST_OUTPUTS)):
            self.outputs.append((position, False, weakref.ref(tensor)))
            whole = tensor._base
            if whole is not None:
                self.outputs.append((position, True, weakref.ref(whole)))

    def arguments(self, missing: list[str]) -> dict[str, Any]:
        """Arguments by position or name, as far as they still exist."""
        found = {str(i): still_there(value, missing) for i, value in enumerate(self.args)}
        return found | {key: still_there(value, missing) for key, value in self.kwargs.items()}


Made = dict[int, tuple["weakref.ref[HeldCall]", int, bool]]
"""By id of a tensor that still exists: the call that put it out, as which of its outputs, and whether it is only viewed by it."""

Again = dict[HeldCall, list[Tensor]]
"""What calls have put out in their replays."""


def floats_in(value: Any, depth: int = 0) -> Iterator[Tensor]:
    """Floating-point tensors of an output of any nesting."""
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
        return
    items: list[Any] = []
    if depth < 4:
        if isinstance(value, (tuple, list)):
            items = list(value)
        elif isinstance(value, dict):
            items = list(value.values())
        elif hasattr(value, "__dataclass_fields__"):
            items = [getattr(value, name, None) for name in value.__dataclass_fields__]
        elif hasattr(value, "__dict__") and not isinstance(value, nn.Module):
            items = list(vars(value).values())
    for item in items:
        yield from floats_in(item, depth + 1)


def _cuda_rng() -> Tensor | None:
    """State of the current device's generator, which lies on the host; None inside a CUDA graph."""
    if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return None
    return torch.cuda.default_generators[torch.cuda.current_device()].get_state()
