"""Interventions in how a model computes: modes, compilation, the direction of the loss, which weights are trained."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor, nn
from torch.nn.modules import module as nn_module

from ..session.patches import Patches
from .optimizer_interventions import Intervention


class TrainMode(Intervention):
    """Models in train mode whenever gradients are on, in eval mode whenever they are off."""

    def install(self, patches: Patches) -> None:
        """A hook of every forward."""

        def before(module: nn.Module, _: tuple[Any, ...]) -> None:
            if self.active and module.training is not torch.is_grad_enabled():
                module.training = torch.is_grad_enabled()

        patches.handles([nn_module.register_module_forward_pre_hook(before)])


class LossTurned(Intervention):
    """backward on minus the loss."""

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.backward."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
                if self.active and isinstance(tensors, Tensor) and tensors.numel() == 1:
                    given = grad_tensors[0] if isinstance(grad_tensors, tuple) else grad_tensors
                    grad_tensors = -(torch.ones_like(tensors) if given is None else given)
                return original(tensors, grad_tensors, *args, **kwargs)

            return backward

        patches.wrap(torch.autograd, "backward", wrap)


class TermTurned(Intervention):
    """The gradient of one term of the loss turned: ``term`` is its place among the terms of sums and differences."""

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.backward, and hook the term's node while it runs."""
        place = int(self.values.get("term", 0))

        def turned(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(None if g is None else -g for g in gradients)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
                handle = None
                if self.active and isinstance(tensors, Tensor) and tensors.numel() == 1 and tensors.grad_fn is not None:
                    terms = terms_of(tensors.grad_fn)
                    handle = terms[place].register_prehook(turned) if place < len(terms) > 1 else None
                try:
                    return original(tensors, *args, **kwargs)
                finally:
                    if handle is not None:
                        handle.remove()

            return backward

        patches.wrap(torch.autograd, "backward", wrap)


def terms_of(node: Any) -> list[Any]:
    """The graph nodes of the terms of a loss, in the order of the script: what numbers are added up and subtracted."""
    name = type(node).__name__.rstrip("0123456789").removesuffix("Backward")
    inputs = [n for n, _ in node.next_functions if n is not None]
    one_number = all(math.prod(data.shape) == 1 for data in node._input_metadata)
    if not one_number or name not in {"Add", "Sub", "Rsub", "Mul", "Div", "Neg"}:
        return [node]
    if name in {"Add", "Sub"}:
        return [term for n in inputs for term in terms_of(n)]
    return terms_of(inputs[0]) if len(inputs) == 1 else [node]  # times a number; a product of two is one term


class AllTrained(Intervention):
    """Every parameter of every called model wants a gradient and is in the optimizer."""

    def install(self, patches: Patches) -> None:
        """Look before the first forward and before the first step."""
        models: dict[int, nn.Module] = {}

        def before(module: nn.Module, _: tuple[Any, ...]) -> None:
            if self.active and torch.is_grad_enabled():
                models[id(module)] = module
                for parameter in module.parameters(recurse=False):  # at every call: a script may freeze them later
                    if parameter.is_floating_point() and parameter.is_leaf:
                        parameter.requires_grad_()

        def step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            held = {id(p) for g in optimizer.param_groups for p in g["params"]}
            missing = {id(p): p for m in models.values() for p in m.parameters() if id(p) not in held}
            if self.active and missing:
                optimizer.param_groups[0]["params"].extend(missing.values())

        patches.handles(
            [nn_module.register_module_forward_pre_hook(before), optim.register_optimizer_step_pre_hook(step)]
        )


class Eager(Intervention):
    """torch.compile gives back what it is given."""

    def install(self, patches: Patches) -> None:
        """Replace it; before the step as well: it is called once."""

        def compile_nothing(model: Any = None, **_: Any) -> Any:
            return model if model is not None else lambda function: function

        patches.put(torch, "compile", compile_nothing)


class Deterministic(Intervention):
    """torch.use_deterministic_algorithms, with a warning where there is none."""

    def install(self, patches: Patches) -> None:
        """Switch it on from the beginning."""
        patches.later(lambda: torch.use_deterministic_algorithms(False))
        torch.use_deterministic_algorithms(True, warn_only=True)
