"""Look at every operator of a pass that is run a second time, apart from the training: inputs, outputs and line.

Not every infinity is a fault: a mask filled with -inf is wanted, and so is its result as long as it has no NaN. To find the
first bad operator of a value, walk back from it through values that were lost without being wanted. It is the operator whose
own inputs were sound.

No tensor that existed before is written to: an operator that would do it ends the pass.
"""

import math
import sys
import weakref
from collections.abc import Iterable, Iterator
from time import perf_counter
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..script.frames import Place, script_place
from ..session.registry import ModuleEntry
from ..tensors.measure import measure
from ..tensors.moments import EMPTY, LATE_DEVICES, Moments, measurable

MOST_OPERATORS = 50_000
_UNINITIALISED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "resize_"}
_COLLECTIVES = {"c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "symm_mem"}
_MOST_KEPT = 8


class BrokenOffError(BaseException):
    """The pass cannot go on, for the reason said; not an Exception, so that the script's own code does not catch it."""


class TensorOrigin:
    """What is known of a tensor: its moments, the operator that made it, whether it is lost, whether that was wanted."""

    __slots__ = ("lost", "moments", "ordinal", "ref", "wanted")

    def __init__(self, tensor: Tensor, ordinal: int | None, moments: Moments | None, *, wanted: bool) -> None:
        self.ref = weakref.ref(tensor)
        self.ordinal = ordinal
        self.moments = moments
        self.lost = moments is not None and moments.nonfinite > 0
        self.wanted = wanted and self.lost


class Operator:
    """One operator that ran. ``inputs`` are (name, dtype, shape, what is known)."""

    __slots__ = (
        "back",
        "dtype",
        "inputs",
        "lost",
        "module",
        "moments",
        "name",
        "node",
        "ordinal",
        "place",
        "shape",
        "wanted",
    )

    def __init__(
        self, ordinal: int, name: str, module: ModuleEntry | None, place: Place | None, node: str | None
    ) -> None:
        self.ordinal = ordinal
        self.name = name
        self.module = module
        self.place = place
        self.node = node
        """Autograd node whose backward ran it; None in the forward pass."""
        self.inputs: list[tuple[str, str, list[int], Moments | None]] = []
        self.back: list[int | None] = []
        """Operators that made its lost inputs; None for one that came from outside."""
        self.moments: Moments | None = None
        self.dtype: str | None = None
        self.shape: list[int] | None = None
        self.lost = False
        self.wanted = False


class ModuleCall:
    """A module's forward in the replay."""

    __slots__ = ("args", "entry", "kept", "kwargs", "module", "output", "rng")

    def __init__(self, entry: ModuleEntry | None, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.entry = entry
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.output: Any = None
        self.kept = False
        self.rng = torch.default_generator.get_state()


class OperatorWatch(TorchDispatchMode):
    """Sees every operator below autograd. ``end`` is the code of the frame at which the script's own frames end."""

    def __init__(self, end: CodeType, deadline: float) -> None:
        super().__init__()
        self.operators: list[Operator] = []
        self.calls: list[ModuleCall] = []
        """Modules whose forward is running, innermost last."""
        self.births: dict[int, tuple[ModuleCall | None, list[tuple[str, Tensor]], list[Tensor]]] = {}
        """For the first operators that made something bad of sound inputs: the module, the inputs, the outputs."""
        self.random = False
        """Whether an operator drew random numbers."""
        self._end = end
        self._deadline = deadline
        self._known: dict[int, TensorOrigin] = {}
        self._ours: set[int] = set()
        self._writer: dict[int, int] = {}
        self._nodes: dict[int, Operator] = {}
        self._broken: str | None = None

    def owns(self, tensors: Iterable[Tensor], *, mask: bool = False) -> None:
        """Copies that were made for this pass, which it may write to; infinities in a ``mask`` are wanted."""
        for tensor in tensors:
            key = _storage(tensor)
            if key is not None:
                self._ours.add(key)
            if mask:
                self._note_outside(tensor, mask=True)

    def producer(self, tensor: Tensor, *, harmful: bool = False) -> Operator | None:
        """The operator that made a lost tensor which nobody wanted so (or all the same, where it is ``harmful``); None where
        there is none."""
        known = self._look_up(tensor)
        if known is None or not known.lost or (known.wanted and not harmful) or known.ordinal is None:
            return None
        return self.operators[known.ordinal]

    def origin(self, operator: Operator) -> tuple[Operator, bool]:
        """The first bad operator behind one that is, and whether what it was given from outside was lost already."""
        best, outside = operator, False
        todo, seen = [operator], {operator.ordinal}
        leaves: list[tuple[Operator, bool]] = []
        while todo:
            one = todo.pop()
            behind = [o for o in one.back if o is not None]
            if not behind:
                leaves.append((one, None in one.back))
            for ordinal in behind:
                if ordinal not in seen:
                    seen.add(ordinal)
                    todo.append(self.operators[ordinal])
        if leaves:
            best, outside = min(leaves, key=lambda leaf: leaf[0].ordinal)
        return best, outside

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Part of torch's protocol: run one operator."""
        del types
        kwargs = kwargs or {}
        if self._broken is None:
            self._broken = self._why_not(func)
        if self._broken is not None:
            raise BrokenOffError(self._broken)
        named = list(_named_tensors(func, args, kwargs))
        if func._schema.is_mutable:
            self._check_writes(func, args, kwargs)
        self.random = self.random or torch.Tag.nondeterministic_seeded in func.tags
        inputs = [(name, tensor, self._look_up(tensor) or self._note_outside(tensor)) for name, tensor in named]
        result = func(*args, **kwargs)
        self._record(func, args, kwargs, inputs, result)
        return result

    def _why_not(self, func: Any) -> str | None:
        if not hasattr(func, "_schema"):
            return f"it uses {func}, which cannot be looked into"
        if func.namespace in _COLLECTIVES:
            return "it talks to other ranks"
        if len(self.operators) >= MOST_OPERATORS:
            return f"it has more than {MOST_OPERATORS} operators"
        if perf_counter() > self._deadline:
            return "it took too long"
        return None

    def _check_writes(self, func: Any, args: Any, kwargs: Any) -> None:
        for index, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            for tensor in _tensors_in(value):
                if _storage(tensor) not in self._ours:
                    self._broken = f"{_short(func)} would write to a tensor that is not the replay's own"
                    raise BrokenOffError(self._broken)

    def _record(
        self, func: Any, args: Any, kwargs: Any, inputs: list[tuple[str, Tensor, TensorOrigin]], result: Any
    ) -> None:
        node: Any = torch._C._current_autograd_node()  # None in a forward pass
        place = script_place(sys._getframe(2), self._end)
        call = self.calls[-1] if self.calls else None
        module = next((c.entry for c in reversed(self.calls) if c.entry is not None), None)
        name = _short(func)
        operator = Operator(len(self.operators), name, module, place, node.name() if node is not None else None)
        if node is None:
            number = torch._C._autograd._get_sequence_nr() - 1  # pyright: ignore[reportAttributeAccessIssue]
            self._nodes.setdefault(number, operator)
        else:
            forward = self._nodes.get(node._sequence_nr())
            if forward is not None:
                operator.module = forward.module
                operator.place = place or forward.place
        self.operators.append(operator)
        taken = {key for _, tensor, _ in inputs if (key := _storage(tensor)) is not None}
        outputs = list(_tensors_in(result))
        lost_inputs = [known for _, _, known in inputs if known.lost]
        constant = name == "lift_fresh"  # torch.tensor(-inf) in the script's code
        unwanted = [known for known in lost_inputs if not known.wanted and not constant]
        literal = constant or any(_is_nonfinite_number(v) for v in (*args, *kwargs.values()))
        operator.inputs = [(n, str(t.dtype).removeprefix("torch."), list(t.shape), k.moments) for n, t, k in inputs]
        operator.back = [known.ordinal for known in unwanted]
        for position, tensor in enumerate(outputs):
            moments = None if name in _UNINITIALISED else look_at(tensor)
            wanted = (
                not unwanted
                and (literal or bool(lost_inputs))
                and moments is not None
                and (moments.nan_count == 0 or (literal and (constant or not inputs)))
            )
            known = self._known[id(tensor)] = TensorOrigin(tensor, operator.ordinal, moments, wanted=wanted)
            key = _storage(tensor)
            if key is not None:
                if key not in taken:
                    self._ours.add(key)
                if func._schema.is_mutable and known.lost:
                    self._writer[key] = operator.ordinal
            if position == 0 or (known.lost and not operator.lost):
                operator.moments, operator.lost, operator.wanted = moments, known.lost, known.wanted
                operator.dtype = str(tensor.dtype).removeprefix("torch.")
                operator.shape = list(tensor.shape)
        if operator.lost and not operator.wanted and not unwanted and len(self.births) < _MOST_KEPT:
            for open_call in self.calls:
                open_call.kept = True
            given = [(n, t) for n, t, _ in inputs]
            self.births[operator.ordinal] = (call, [] if func._schema.is_mutable else given, outputs)

    def _look_up(self, tensor: Tensor) -> TensorOrigin | None:
        known = self._known.get(id(tensor))
        if known is not None and known.ref() is not tensor:
            known = None
        key = _storage(tensor)
        writer = self._writer.get(key) if key is not None else None
        if writer is not None and (known is None or (known.ordinal is not None and known.ordinal < writer)):
            moments = look_at(tensor)
            if moments is not None and moments.nonfinite:
                known = TensorOrigin(tensor, writer, moments, wanted=self.operators[writer].wanted)
                self._known[id(tensor)] = known
        return known

    def _note_outside(self, tensor: Tensor, *, mask: bool = False) -> TensorOrigin:
        """A tensor that no operator of this pass has made."""
        moments = look_at(tensor)
        only_infinite = moments is not None and not moments.nan_count
        known = self._known[id(tensor)] = TensorOrigin(tensor, None, moments, wanted=mask and only_infinite)
        return known


def look_at(tensor: Tensor) -> Moments | None:
    """Moments of a floating-point tensor, with its zeros, now; None for others. Waits for a device."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or not measurable(tensor):
        return None
    if tensor.device.type not in LATE_DEVICES:
        return measure(tensor, count_zeros=True)
    if tensor.layout is not torch.strided or not tensor.numel():
        return EMPTY if not tensor.numel() else None
    flat = tensor.detach()
    flat = (torch.view_as_real(flat) if flat.is_complex() else flat).reshape(-1)
    wide = flat.double() if flat.dtype is torch.float64 else flat.float()
    finite = torch.isfinite(wide)
    kept = torch.where(finite, wide, 0)
    low = torch.where(finite, wide, math.inf).amin()
    high = torch.where(finite, wide, -math.inf).amax()
    nan, infinite, zero, lo, hi, total, squares = torch.stack(
        [
            v.double()
            for v in (
                wide.isnan().sum(),
                wide.isinf().sum(),
                (wide == 0).sum(),
                low,
                high,
                kept.sum(),
                kept.square().sum(),
            )
        ]
    ).tolist()
    none = lo > hi
    return Moments(
        flat.numel(), int(nan), int(infinite), int(zero), None if none else lo, None if none else hi, total, squares
    )


def _short(func: Any) -> str:
    """aten::log.default → log; operators of other libraries keep their namespace."""
    name = func._schema.name
    return name.removeprefix("aten::").replace("::", ".")


def _storage(tensor: Tensor) -> int | None:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None  # sparse and the like


def _named_tensors(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Tensor]]:
    arguments = func._schema.arguments
    for index, value in enumerate(args):
        name = arguments[index].name if index < len(arguments) else str(index)
        for tensor in _tensors_in(value):
            yield name, tensor
    for name, value in kwargs.items():
        for tensor in _tensors_in(value):
            yield name, tensor


def _tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            if isinstance(item, Tensor):
                yield item


def _is_nonfinite_number(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
