"""Interventions in precision: autocast off, weights and inputs of another type, another scale of the loss."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor, nn
from torch.nn.modules import module as nn_module

from ..session.patches import Patches
from .optimizer_interventions import Intervention
from .stage import replaced

_HALVES = {torch.float16, torch.bfloat16}

_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
"""Functions of torch.nn.functional that want all their arguments of one type."""


class AutocastOff(Intervention):
    """Autocast switched off."""

    def install(self, patches: Patches) -> None:
        """Wrap the entering of autocast."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def enter(context: Any) -> Any:
                if self.active:
                    context._enabled = False
                return original(context)

            return enter

        patches.wrap(torch.autocast, "__enter__", wrap)


class AutocastOn(Intervention):
    """Outermost forwards with gradients under autocast: to the type that the script's own autocast had, or the device's usual."""

    def install(self, patches: Patches) -> None:
        """Hooks of every forward, and a look at the script's own autocast."""
        types: dict[str, torch.dtype] = {}
        entered: list[torch.autocast | None] = []

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def enter(context: Any) -> Any:
                if context._enabled:
                    types[context.device] = context.fast_dtype
                return original(context)

            return enter

        def before(module: nn.Module, _: tuple[Any, ...]) -> None:
            context = None
            if self.active and not entered and torch.is_grad_enabled():
                weight = next(module.parameters(), None)
                kind = "cpu" if weight is None else weight.device.type
                context = torch.autocast(kind, dtype=types.get(kind))
                context.__enter__()
            entered.append(context)

        def after(*_: Any) -> None:
            context = entered.pop() if entered else None
            if context is not None:
                context.__exit__(None, None, None)

        patches.wrap(torch.autocast, "__enter__", wrap)
        handles = [
            nn_module.register_module_forward_pre_hook(before),
            nn_module.register_module_forward_hook(after, always_call=True),
        ]
        patches.handles(handles)


class Computed(Intervention):
    """Autocast off, and weights and inputs of lower precision computed in a higher one; ``module`` names the only one.

    The weights stay converted, as do their gradients and the optimizer's states. What a chosen module puts out is of the type
    that entered it.
    """

    lower: frozenset[torch.dtype] = frozenset()
    higher = torch.float32

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.wanted: str | None = values.get("module")
        self._names: dict[int, str] = {}
        """id of a module → its name in the model that was called first."""
        self._converted: set[int] = set()
        self._own = self.higher
        """Type of what entered the chosen module last."""

    def install(self, patches: Patches) -> None:
        """Hooks of every forward and of every step."""
        if self.wanted is None:
            AutocastOff(self.now, self.step, self.values).install(patches)
            for name in ("half", "bfloat16", "to"):
                patches.wrap(Tensor, name, self._wrap_cast)
        patches.handles(
            [
                nn_module.register_module_forward_pre_hook(self._before),
                nn_module.register_module_forward_hook(self._after),
                optim.register_optimizer_step_pre_hook(self._states),
            ]
        )
        for name in _LOSSES:
            patches.wrap(torch.nn.functional, name, self._wrap_loss)

    def _wrap_cast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What the script itself takes down to half precision stays as it is."""

        @functools.wraps(original)
        def cast(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensor, *args, **kwargs)
            if self.active and result.dtype in _HALVES and tensor.dtype not in _HALVES:
                kept = tensor if tensor.is_floating_point() else tensor.to(self.higher)
                return kept.to(result.device)
            return result

        return cast

    def _chosen(self, module: nn.Module) -> bool:
        if self.wanted is None:
            return True
        if id(module) not in self._names:
            self._names |= {id(m): name for name, m in module.named_modules()}
        name = self._names.get(id(module), "")
        return name == self.wanted or name.startswith(f"{self.wanted}.")

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if not self.active or not self._chosen(module):
            return None
        if self._names.get(id(module)) == self.wanted:
            replaced(args, self._note_type)
        # a parent may use the weights of its parts before it calls them, and a script may convert them again later
        whole = id(module) not in self._converted
        if whole:
            self._converted |= {id(m) for m in module.modules()}
        for tensor in [*module.parameters(recurse=whole), *module.buffers(recurse=whole)]:
            self._convert(tensor)
        if any(t.dtype is self.higher for t in [*module.parameters(), *module.buffers()]):
            return replaced(args, self._raised)
        return None

    def _after(self, module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:
        if self.wanted is None or not self.active or self._names.get(id(module)) != self.wanted:
            return None
        return replaced(output, lambda t: t.to(self._own) if t.dtype is self.higher else t)

    def _note_type(self, tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            self._own = tensor.dtype
        return tensor

    def _convert(self, tensor: Tensor) -> None:
        if tensor.dtype not in self.lower:
            return
        gradient, tensor.grad = tensor.grad, None
        tensor.data = tensor.data.to(self.higher)
        if gradient is not None:
            tensor.grad = gradient.to(self.higher)

    def _raised(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.higher) if tensor.dtype in self.lower else tensor

    def _states(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for parameter, state in optimizer.state.items():
            if self.active and parameter.dtype is self.higher:
                for key, value in list(state.items()):
                    if isinstance(value, Tensor) and value.shape == parameter.shape and value.dim():
                        state[key] = self._raised(value)

    def _wrap_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def loss(x: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if self.active and isinstance(x, Tensor) and x.dtype is self.higher:
                target, args, kwargs = replaced((target, args, kwargs), self._raised)
            return original(x, target, *args, **kwargs)

        return loss


class Float32(Computed):
    """Autocast off, and weights of half precision in float32."""

    lower = frozenset(_HALVES)


class Float64(Computed):
    """Autocast off, and weights and inputs in float64."""

    lower = frozenset({*_HALVES, torch.float32})
    higher = torch.float64


class LossScaled(Intervention):
    """The loss multiplied by ``factor`` for the backward, and what it adds to the gradients divided by it."""

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.backward, and look which parameters are trained."""
        parameters: dict[int, nn.Parameter] = {}
        factor = float(self.values.get("factor", 1.0))

        def before(module: nn.Module, _: tuple[Any, ...]) -> None:
            if torch.is_grad_enabled():
                parameters.update((id(p), p) for p in module.parameters(recurse=False))

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
                if not self.active or not isinstance(tensors, Tensor) or tensors.numel() != 1:
                    return original(tensors, grad_tensors, *args, **kwargs)
                given = grad_tensors[0] if isinstance(grad_tensors, tuple) else grad_tensors
                earlier = {key: p.grad for key, p in parameters.items()}
                for parameter in parameters.values():
                    parameter.grad = None
                ones = torch.ones_like(tensors) if given is None else given
                result = original(tensors, ones * factor, *args, **kwargs)
                for key, parameter in parameters.items():
                    before_it = earlier[key]
                    if parameter.grad is not None:
                        parameter.grad.div_(factor)
                    if before_it is not None:  # the script may hold the tensor
                        parameter.grad = before_it if parameter.grad is None else before_it.add_(parameter.grad)
                return result

            return backward

        patches.handles([nn_module.register_module_forward_pre_hook(before)])
        patches.wrap(torch.autograd, "backward", wrap)
