"""Interventions in what a model is given: batches, samples, inputs, targets, masks, and the arguments of functions."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils.data import dataloader

from ..session.patches import Patches
from .optimizer_interventions import Intervention
from .stage import replaced, tensors_of

LOSSES = (
    "cross_entropy",
    "nll_loss",
    "ctc_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
)
"""Functions of torch.nn.functional whose arguments beside the first are the target and what belongs to it."""


class BatchReplaced(Intervention):
    """In the step of the fault, the batch of the step before; ``samples`` names those alone that are replaced."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.called_in = -1
        self.calls: dict[tuple[str, Any], int] = {}
        """Calls of this step, of each module and loss function."""
        self.last: dict[tuple[str, Any, int], Any] = {}
        self.before_last: dict[tuple[str, Any, int], Any] = {}
        """What they were given in this step, and in the one before."""

    def install(self, patches: Patches) -> None:
        """Wrap the DataLoader's iterator; without a loader, what enters the model and torch's loss functions."""
        kept: dict[int, Any] = {}
        fed = [False]
        early = [False]
        skipped = int(self.values.get("skipped", 0))

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def following(iterator: Any) -> Any:
                batch = original(iterator)
                fed[0] = True
                key = id(getattr(iterator, "_dataset", iterator))
                # a loader is asked for a step's batch while the step before is not counted yet, or just is
                count = kept.get(-key, -1) + 1
                kept[-key] = count
                if not torch.is_grad_enabled():
                    return batch
                before = self.now() == self.step - 1 and count == self.step - (skipped if self.now() > skipped else 0)
                if key in kept and (before or (self.now() == self.step and not early[0])):
                    early[0] |= before
                    return self._mixed(batch, kept[key])
                kept[key] = replaced(batch, lambda t: t.detach().clone())
                return batch

            return following

        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", wrap)

        def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
            # what enters a module from within another model's forward needs a gradient, and is not replaced
            if fed[0] or not torch.is_grad_enabled():
                return None
            return self._as_before(("module", id(module)), args)

        def wrap_loss(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def loss(x: Any, *args: Any, **kwargs: Any) -> Any:
                given = None
                if not fed[0] and torch.is_grad_enabled():
                    given = self._as_before(("loss", name), (args, kwargs))
                args, kwargs = given or (args, kwargs)
                return original(x, *args, **kwargs)

            return loss

        patches.handles([nn_module.register_module_forward_pre_hook(before)])
        for name in LOSSES:
            patches.wrap(torch.nn.functional, name, functools.partial(wrap_loss, name))

    def _as_before(self, who: tuple[str, Any], given: tuple[Any, ...]) -> Any:
        """What this call was given in the step before, in the step of the fault; else it is remembered."""
        now = self.now()
        if now != self.called_in:
            self.called_in, self.calls = now, {}
            self.before_last, self.last = self.last, {}
        place = self.calls.get(who, 0)
        self.calls[who] = place + 1
        if now == self.step:
            earlier = self.before_last.get((*who, place))
            if earlier is None:
                return None
            old = iter(tensors_of(earlier))
            return replaced(given, lambda t: t if t.requires_grad else next(old, t))
        self.last[(*who, place)] = replaced(given, lambda t: t.detach().clone())
        return None

    def _mixed(self, batch: Any, earlier: Any) -> Any:
        samples = self.values.get("samples")
        if samples is None:
            return replaced(earlier, lambda t: t.detach().clone())
        old: list[Tensor] = []
        replaced(earlier, lambda t: (old.append(t), t)[1])
        place = iter(old)

        def mix(tensor: Tensor) -> Tensor:
            other = next(place, tensor)
            if other.shape != tensor.shape or not tensor.dim():
                return tensor
            copy = tensor.detach().clone()
            for i in samples:
                if i < tensor.shape[0]:
                    copy[i] = other[i]
            return copy

        return replaced(batch, mix)


class InputsClipped(Intervention):
    """Floating inputs of models held within the smallest and largest value of each of their features so far."""

    def install(self, patches: Patches) -> None:
        """A hook of every outermost forward with gradients."""
        seen: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}
        depth = [0]

        def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
            depth[0] += 1
            if depth[0] > 1 or not torch.is_grad_enabled():
                return None
            place = iter(range(64))

            def clip(tensor: Tensor) -> Tensor:
                key = (type(module).__name__, next(place))
                if not tensor.is_floating_point() or tensor.dim() < 2:
                    return tensor
                low, high = tensor.detach().flatten(0, -2).amin(0), tensor.detach().flatten(0, -2).amax(0)
                known = seen.get(key)
                if known is not None and known[0].shape == low.shape:
                    if self.active:
                        return torch.nan_to_num(tensor, 0.0).maximum(known[0]).minimum(known[1])
                    low, high = low.minimum(known[0]), high.maximum(known[1])
                if not self.active:
                    seen[key] = low, high
                return tensor

            return replaced(args, clip)

        def after(*_: Any) -> None:
            depth[0] = max(0, depth[0] - 1)

        handles = [
            nn_module.register_module_forward_pre_hook(before),
            nn_module.register_module_forward_hook(after, always_call=True),
        ]
        patches.handles(handles)


class MaskedRowsOpened(Intervention):
    """Attention rows without any key look at all of them, with equal weights."""

    def install(self, patches: Patches) -> None:
        """Wrap softmax and scaled_dot_product_attention."""

        def wrap_softmax(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def softmax(x: Any, *args: Any, **kwargs: Any) -> Any:
                if self.active and isinstance(x, Tensor) and x.is_floating_point() and x.dim():
                    dim = kwargs.get("dim", args[0] if args and isinstance(args[0], int) else -1)
                    x = x.masked_fill((x == -torch.inf).all(-1 if dim is None else dim, keepdim=True), 0.0)
                return original(x, *args, **kwargs)

            return softmax

        for owner in (torch, torch.nn.functional, Tensor):
            patches.wrap(owner, "softmax", wrap_softmax)

        def wrap_attention(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def attention(
                query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, *args: Any, **kwargs: Any
            ) -> Any:
                if self.active and isinstance(attn_mask, Tensor):
                    if attn_mask.dtype is torch.bool:
                        attn_mask = attn_mask | ~attn_mask.any(-1, keepdim=True)
                    else:
                        attn_mask = attn_mask.masked_fill((attn_mask == -torch.inf).all(-1, keepdim=True), 0.0)
                return original(query, key, value, attn_mask, *args, **kwargs)

            return attention

        patches.wrap(torch.nn.functional, "scaled_dot_product_attention", wrap_attention)


class DomainsKept(Intervention):
    """Arguments of functions moved into their domains: ``log`` and ``div`` away from 0, ``sqrt`` and its like above 0."""

    tiny = 1e-6

    def install(self, patches: Patches) -> None:
        """Wrap the functions that the intervention's name says."""
        for name in self.values.get("functions", ()):
            for owner in (torch, Tensor):
                if hasattr(owner, name):
                    patches.wrap(owner, name, functools.partial(self._wrap, name))
        for name in ("__truediv__", "__rtruediv__") if "div" in self.values.get("functions", ()) else ():
            patches.wrap(Tensor, name, functools.partial(self._wrap, name))

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.active or not args:
                return original(*args, **kwargs)
            at = 1 if name in {"div", "true_divide", "__truediv__"} and len(args) > 1 else 0
            changed: list[Any] = list(args)
            if isinstance(changed[at], Tensor) and changed[at].is_floating_point():
                changed[at] = self._moved(name, changed[at])
            return original(*changed, **kwargs)

        return call

    def _moved(self, name: str, x: Tensor) -> Tensor:
        if name in {"acos", "asin", "arccos", "arcsin", "atanh", "arctanh"}:
            return x.clamp(-1 + self.tiny, 1 - self.tiny)
        if "div" in name:
            return torch.where(x.abs() < self.tiny, torch.full_like(x, self.tiny), x)
        if name in {"exp", "expm1"}:
            return x.clamp(max=60.0)
        if name == "norm":
            return x + (x == 0).all() * self.tiny
        return x.clamp(min=self.tiny)


class TargetsKept(Intervention):
    """Class numbers that the loss does not have, and rows that are all ignored, brought into range."""

    def install(self, patches: Patches) -> None:
        """Wrap cross_entropy and nll_loss."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def loss(x: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
                if self.active and not target.is_floating_point() and x.dim() > 1:
                    ignored = kwargs.get("ignore_index", -100)
                    outside = ((target < 0) | (target >= x.shape[1])) & (target != ignored)
                    target = target.masked_fill(outside, ignored)
                    if bool((target == ignored).all()):
                        return x.sum() * 0.0
                return original(x, target, *args, **kwargs)

            return loss

        for name in ("cross_entropy", "nll_loss"):
            patches.wrap(torch.nn.functional, name, wrap)


class TargetsMoved(Intervention):
    """Class numbers that are counted from one counted from zero: those of a loss whose largest is the number of classes."""

    def install(self, patches: Patches) -> None:
        """Wrap cross_entropy and nll_loss."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def loss(x: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
                if self.active and not target.is_floating_point() and x.dim() > 1 and not bool((target == 0).any()):
                    ignored = kwargs.get("ignore_index", -100)
                    target = torch.where((target == ignored) | (target < 1), target, target - 1)
                return original(x, target, *args, **kwargs)

            return loss

        for name in ("cross_entropy", "nll_loss"):
            patches.wrap(torch.nn.functional, name, wrap)
