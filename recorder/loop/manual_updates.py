"""Scripts that have no optimizer of torch and update their weights themselves: what their parameters are, and their gradients.

Gradients come from torch.autograd.grad (torch.func.grad calls it too), or from backward() into bare tensors that no module
holds. Where an optimizer exists it is what ends an iteration, and torch.autograd.grad is a part of the loss: nothing happens
here then.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ..autograd.graph import leaves_of
from ..script.variable_names import TensorNames
from ..session.patches import Patches
from ..session.registry import Catalogue, ParameterEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Part
from ..tensors.moments import measurable
from .backward import BackwardWatch
from .optimizers import OptimizerWatch

_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


class OwnUpdates(Part):
    """Makes gradients known that no optimizer will ever see."""

    name = "own-updates"

    def __init__(self, session: Session, backward: BackwardWatch, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self.backward = backward
        self.optimizers = optimizers

    def listen(self, signals: Signals) -> None:
        """Answer the optimizer room."""
        del signals
        self.optimizers.bare_tensors = self._behind

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.grad."""
        before, after = self.guarded(self._before), self.guarded(self._after)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
                if self.optimizers.alive() or self.session.position.in_backward:
                    return original(outputs, inputs, *args, **kwargs)
                if isinstance(inputs, Iterator):  # model.parameters(): it can be gone through only once
                    inputs = tuple(inputs)
                parameters = before(outputs, inputs, *args, **kwargs)
                gradients = None
                try:
                    gradients = original(outputs, inputs, *args, **kwargs)
                    return gradients
                finally:
                    if parameters is not None:
                        after(parameters, gradients)

            return grad

        patches.wrap(torch.autograd, "grad", wrap)

    def _before(
        self,
        outputs: Any,
        inputs: Any,
        grad_outputs: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        **_: Any,
    ) -> list[tuple[Tensor, ParameterEntry, int]] | None:
        """The inputs as parameters; None where these are not the gradients that train."""
        seen = [t.numel() if isinstance(t, Tensor) else 0 for t in (*_listed(outputs), *_listed(inputs))]
        outputs, inputs = _plain(outputs), _plain(inputs)
        transformed = _functorch.peek_interpreter_stack() is not None
        if (create_graph or grad_outputs is not None) and not transformed:
            return None  # another derivative is to come
        if not all(isinstance(t, Tensor) for t in (*outputs, *inputs)) or len(outputs) != 1 or seen[0] != 1:
            return None
        members = outputs[0].numel()
        """Of an ensemble that vmap trains as one, each with weights of its own; else 1."""
        if any(whole.numel() != part * members for whole, part in zip(inputs, seen[1:], strict=True)):
            return None
        if members > 1 and (len(inputs) < 2 or _derivatives() > 1):
            return None  # of a model's output by its data, sample by sample
        catalogue = self.session.catalogue
        if not transformed and not any(catalogue.has_parameter(t) for t in inputs) and catalogue.roots:
            return None  # a derivative with respect to data
        with _untransformed():
            parameters = _entries(catalogue, inputs)
            loss = outputs[0].detach().mean() if transformed else outputs[0]
            self.backward.before(loss, retain_graph=bool(retain_graph))
        return parameters

    def _after(self, parameters: list[tuple[Tensor, ParameterEntry, int]], gradients: Any) -> None:
        with _untransformed():
            self.backward.after(returned=gradients is not None)
            if gradients is not None:
                found = [g.detach() if isinstance(g, Tensor) else None for g in _plain(gradients)]
                self.optimizers.gradients_from_autograd_grad(parameters, found)

    def _behind(self, loss: Tensor) -> list[ParameterEntry]:
        """Entries of the bare tensors that a loss depends on, in the order of the graph."""
        return [entry for _, entry, _ in _entries(self.session.catalogue, list(dict.fromkeys(leaves_of(loss))))]


def _derivatives() -> int:
    """How many derivatives of torch.func are being taken, one inside the other."""
    kind = torch._C._functorch.TransformType.Grad  # pyright: ignore[reportAttributeAccessIssue]
    return sum(interpreter.key() == kind for interpreter in _functorch.get_interpreter_stack() or ())


def _listed(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _plain(tensors: Any) -> list[Any]:
    """As a list, and as they are outside of torch.func's transforms."""
    return [_unwrapped(t) for t in _listed(tensors)]


def _unwrapped(tensor: Any) -> Any:
    while isinstance(tensor, Tensor) and _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def _untransformed() -> AbstractContextManager[Any]:
    """What runs inside is computed by torch itself, not by a transform in progress."""
    if _functorch.peek_interpreter_stack() is None:
        return contextlib.nullcontext()
    return sys.modules["torch._functorch.pyfunctorch"].temporarily_clear_interpreter_stack()


def _entries(catalogue: Catalogue, tensors: Sequence[Tensor]) -> list[tuple[Tensor, ParameterEntry, int]]:
    """With their entries, as parameters that no optimizer holds."""
    names = TensorNames() if not all(catalogue.has_parameter(t) for t in tensors) else None
    found: list[tuple[Tensor, ParameterEntry, int]] = []
    for i, tensor in enumerate(tensors):
        if measurable(tensor):
            name = (names.of(tensor) if names is not None else None) or f"tensors[{i}]"
            found.append((tensor, catalogue.bare_parameter(tensor, name), -1))
    return found
