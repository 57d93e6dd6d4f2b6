"""Interventions: the fixes of causes in executable form, switched into a re-run of the script from a step on.

Each is a class that installs its hooks and changes nothing before its step. What a rule's cause is confirmed by stands in
analyzer/interventions.toml, by these names.
"""

import contextlib
import functools
import statistics
from collections.abc import Callable, Generator
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils.data import dataloader

from ..session.patches import Patches
from .stage import replaced

_HISTORY = 64
"""Steps whose gradient norms are remembered."""


class Intervention:
    """Something that is done differently from a step on. ``now`` tells the step; ``step`` is the first one."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        self.now = now
        self.step = step
        self.values = values

    @property
    def active(self) -> bool:
        """Whether it is in force."""
        return self.now() >= self.step

    def install(self, patches: Patches) -> None:
        """Put the hooks in."""
        raise NotImplementedError


class Nothing(Intervention):
    """The script as it is: does the fault come back?"""

    def install(self, patches: Patches) -> None:
        """Nothing to put in."""


class BatchReplaced(Intervention):
    """In the step of the fault, the batch of the step before; ``samples`` names those alone that are replaced."""

    def install(self, patches: Patches) -> None:
        """Wrap the DataLoader's iterator; without a loader, what enters the model and torch's loss functions."""
        kept: dict[int, Any] = {}
        stand_ins: list[Any] = []
        inputs: list[Tensor] = []
        fed = [False]

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
                due = self.now() in {self.step - 1, self.step} and count == self.step + int(self.values.get("ahead", 0))
                if due and key in kept:
                    return self._mixed(batch, kept[key])
                kept[key] = replaced(batch, lambda t: t.detach().clone())
                return batch

            return following

        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", wrap)

        def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
            if fed[0] or not torch.is_grad_enabled() or getattr(module, "_firstfault_inner", False):
                return None
            stand_ins.append(module)
            found: list[Tensor] = []
            if self.now() == self.step and inputs:
                old = iter(inputs)
                return replaced(args, lambda t: _fitting(next(old, t), t))
            replaced(args, lambda t: (found.append(t.detach().clone()), t)[1])
            if found and not inputs:
                inputs.extend(found)
            return None

        patches.handles([nn_module.register_module_forward_pre_hook(before)])

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


def _fitting(other: Tensor, tensor: Tensor) -> Tensor:
    return other if other.shape == tensor.shape and other.dtype == tensor.dtype else tensor


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


class OfOptimizers(Intervention):
    """Does something right before optimizers step."""

    def install(self, patches: Patches) -> None:
        """A hook of every step."""

        def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.before(optimizer)

        def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.after(optimizer)

        patches.handles(
            [optim.register_optimizer_step_pre_hook(before), optim.register_optimizer_step_post_hook(after)]
        )

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients are there."""

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Weights have been updated."""


class LrKept(OfOptimizers):
    """The learning rates of the step before."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.rates: dict[tuple[int, int], Any] = {}

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Put them in; until then remember them."""
        for i, group in enumerate(optimizer.param_groups):
            key = id(optimizer), i
            if self.active and key in self.rates:
                group["lr"] = self.rates[key]
            else:
                self.rates[key] = group["lr"]


class LrScaled(OfOptimizers):
    """Learning rates multiplied by ``factor``, for the step alone."""

    factor = 0.1

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.own: list[Any] = []

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Multiply."""
        if self.active:
            self.own = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * self.factor

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the script's own back: a scheduler multiplies what it finds."""
        if self.active:
            for group, rate in zip(optimizer.param_groups, self.own, strict=False):
                group["lr"] = rate


class LrRaised(LrScaled):
    """Learning rates multiplied by a hundred."""

    factor = 100.0


class Clipped(OfOptimizers):
    """Gradients clipped to the median of their norms so far, to 1 where there is no history."""

    def __init__(self, now: Callable[[], int], step: int, values: dict[str, Any]) -> None:
        super().__init__(now, step, values)
        self.norms: list[float] = []

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip, or remember the norm."""
        gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if not gradients:
            return
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if not self.active:
            self.norms = [*self.norms, norm][-_HISTORY:]
            return
        limit = statistics.median(self.norms) if self.norms else 1.0
        if norm > limit:
            for gradient in gradients:
                gradient.mul_(limit / norm)


class EpsLarger(OfOptimizers):
    """The optimizer's eps raised to 1e-4 at least."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Raise it."""
        if self.active:
            for group in optimizer.param_groups:
                if "eps" in group:
                    group["eps"] = max(group["eps"], 1e-4)


class GradientsCleared(OfOptimizers):
    """Gradients set to None after every step."""

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Clear."""
        if self.active:
            optimizer.zero_grad(set_to_none=True)


class NoWeightDecay(OfOptimizers):
    """weight_decay of 0."""

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Take it out."""
        if self.active:
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.0


class Float32(Intervention):
    """Autocast switched off, and a GradScaler's scale of one."""

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


class AllTrained(Intervention):
    """Every parameter of every called model wants a gradient and is in the optimizer."""

    def install(self, patches: Patches) -> None:
        """Look before the first forward and before the first step."""
        models: dict[int, nn.Module] = {}

        def before(module: nn.Module, _: tuple[Any, ...]) -> None:
            if self.active and torch.is_grad_enabled() and id(module) not in models:
                models[id(module)] = module
                for parameter in module.parameters():
                    if parameter.is_floating_point():
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


class ActivationsScaled(Intervention):
    """float16 and bfloat16 parts of a model computed in float32: outputs of half precision are kept as they would be."""

    def install(self, patches: Patches) -> None:
        """As Float32, and modules whose weights are of half precision are converted when they are called."""
        Float32(self.now, self.step, self.values).install(patches)

        def before(module: nn.Module, args: tuple[Any, ...]) -> Any:
            if not self.active:
                return None
            halves = [p for p in module.parameters(recurse=False) if p.dtype in {torch.float16, torch.bfloat16}]
            for parameter in halves:
                parameter.data = parameter.data.float()
            if halves:
                return replaced(args, lambda t: t.float() if t.dtype in {torch.float16, torch.bfloat16} else t)
            return None

        patches.handles([nn_module.register_module_forward_pre_hook(before)])


INTERVENTIONS: dict[str, tuple[type[Intervention], dict[str, Any]]] = {
    "nothing": (Nothing, {}),
    "batch-replaced": (BatchReplaced, {}),
    "inputs-clipped": (InputsClipped, {}),
    "lr-kept": (LrKept, {}),
    "lr-tenth": (LrScaled, {}),
    "lr-hundredfold": (LrRaised, {}),
    "clip-on": (Clipped, {}),
    "eps-larger": (EpsLarger, {}),
    "gradients-cleared": (GradientsCleared, {}),
    "no-weight-decay": (NoWeightDecay, {}),
    "float32": (ActivationsScaled, {}),
    "masked-rows-opened": (MaskedRowsOpened, {}),
    "log-above-zero": (DomainsKept, {"functions": ["log", "log2", "log10", "log1p", "pow", "rsqrt", "reciprocal"]}),
    "sqrt-above-zero": (DomainsKept, {"functions": ["sqrt", "rsqrt", "norm", "pow"]}),
    "divisor-not-zero": (DomainsKept, {"functions": ["div", "true_divide", "reciprocal"]}),
    "domain-kept": (DomainsKept, {"functions": ["acos", "asin", "arccos", "arcsin", "atanh", "log", "sqrt"]}),
    "exp-bounded": (DomainsKept, {"functions": ["exp", "expm1"]}),
    "targets-in-range": (TargetsKept, {}),
    "modes-set": (TrainMode, {}),
    "loss-turned": (LossTurned, {}),
    "all-trained": (AllTrained, {}),
    "eager": (Eager, {}),
    "deterministic": (Deterministic, {}),
}
"""Name of an intervention → its class and its values."""


def begin(name: str, step: int, values: dict[str, Any], now: Callable[[], int]) -> Patches:
    """Install an intervention by its name. Raises KeyError for one that does not exist."""
    kind, own = INTERVENTIONS[name]
    patches = Patches()
    kind(now, step, {**own, **values}).install(patches)
    return patches


@contextlib.contextmanager
def intervened(name: str, step: int = 0, now: Callable[[], int] = lambda: 0, **values: Any) -> Generator[None]:
    """The same around a block of one's own code."""
    patches = begin(name, step, values, now)
    try:
        yield
    finally:
        patches.undo()
