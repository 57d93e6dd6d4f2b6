"""The stage of the trials: puts a model, its optimizers and the random generators back, and changes what a trial asks for.

Used by the loop of a script and by a bench alike. Everything is kept as copies; hooks are its own and come out again.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .detached_inside import DetachedInside, leaves_behind
from .random_states import random_states, set_random_states
from .trial import Seen, Trial


class Start:
    """Weights, buffers, modes, optimizer states and random states at one moment."""

    def __init__(self, models: list[nn.Module], optimizers: list[torch.optim.Optimizer]) -> None:
        self.tensors: list[tuple[Tensor, Tensor]] = []
        for model in models:
            self.add_model(model)
        self.states: list[tuple[torch.optim.Optimizer, dict[Any, Any], list[dict[str, Any]]]] = []
        for optimizer in optimizers:
            self.add_optimizer(optimizer)
        self.random = random_states()

    def add_model(self, model: nn.Module) -> None:
        """Keep the weights and buffers of a model too, those that are not kept yet."""
        known = {id(tensor) for tensor, _ in self.tensors}
        held = [*model.parameters(), *model.buffers()]
        self.tensors += [(t, t.detach().clone()) for t in dict.fromkeys(held) if id(t) not in known]

    def add_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Keep the state and the settings of an optimizer too."""
        groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        self.states.append((optimizer, _copied(optimizer.state), groups))

    def restore(self) -> None:
        """Put everything back. Gradients are dropped."""
        with torch.no_grad():
            for tensor, kept in self.tensors:
                tensor.copy_(kept)
                tensor.grad = None
        for optimizer, state, groups in self.states:
            optimizer.state = defaultdict(dict, _copied(state))
            for group, settings in zip(optimizer.param_groups, groups, strict=False):
                group.update(settings)
        set_random_states(self.random)


def _copied(state: Any) -> dict[Any, Any]:
    def value(v: Any) -> Any:
        if isinstance(v, Tensor):
            return v.detach().clone()
        if isinstance(v, dict):
            return {k: value(x) for k, x in v.items()}
        return [value(x) for x in v] if isinstance(v, list) else v

    return {key: value(entry) for key, entry in state.items()}


class Stage:
    """Runs around one iteration: ``begin``, the iteration itself, ``end``."""

    def __init__(
        self,
        first: nn.Module,
        last: nn.Module,
        parameters: list[Tensor],
        optimizers: list[torch.optim.Optimizer],
        start: Start,
    ) -> None:
        self.parameters = parameters
        self.optimizers = optimizers
        self.start = start
        self.trial = Trial()
        self.seen = Seen()
        self.same_batch = False
        """Whether every trial draws the same random numbers and gets what entered the model and the losses of the first one: a
        script without a DataLoader makes its batch itself."""
        self._kept_inputs: list[Tensor] = []
        self._kept_targets: list[Tensor] = []
        self._buffers: list[tuple[Tensor, Tensor]] = []
        self.input_ids: set[int] = set()
        """Storages of what enters the model: what else is in a batch is a target."""
        self._modes: list[tuple[nn.Module, bool]] = []
        self._began = 0.0
        self._autocast: Any = None
        self._detached: DetachedInside | None = None
        self._handles = [
            first.register_forward_pre_hook(self._before, with_kwargs=True),
            last.register_forward_hook(self._after),
        ]
        self._last = last

    def close(self) -> None:
        """Take the hooks out."""
        for handle in self._handles:
            handle.remove()

    def begin(self, trial: Trial) -> None:
        """Make everything ready for a trial."""
        self.trial, self.seen = trial, Seen()
        if trial.fresh:
            self.start.restore()
            if trial.warmed:
                for buffer, kept in self._buffers:
                    buffer.detach().copy_(kept)
        elif self.same_batch and not trial.stream:
            set_random_states(self.start.random)
        if trial.nudge is not None:
            with torch.no_grad():
                for parameter, by in zip(self.parameters, trial.nudge, strict=True):
                    parameter.add_(by)
        if trial.follow_detached:
            self._detached = DetachedInside(self.parameters)
            self._detached.__enter__()
        self._began = time.perf_counter()

    def end(self) -> Seen:
        """What was seen."""
        self._leave()
        if self.trial.keep_buffers:
            trained = {id(p) for p in self.parameters}
            self._buffers = [(t, t.detach().clone()) for t, _ in self.start.tensors if id(t) not in trained]
        self.seen.seconds = time.perf_counter() - self._began
        return self.seen

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """The gradients of the trial are there; the learning rate is about to be used."""
        if self.trial.lr is None:
            return
        settings = next((groups for o, _, groups in self.start.states if o is optimizer), [])
        bases = [max(float(g.get("initial_lr", 0.0)), float(g.get("lr", 0.0))) for g in settings]
        largest = max(bases, default=0.0)
        for i, group in enumerate(optimizer.param_groups):
            rate = self.trial.lr * (bases[i] / largest if largest > 0 and i < len(bases) else 1.0)
            group["lr"] = torch.full_like(group["lr"], rate) if isinstance(group["lr"], Tensor) else rate

    def lost(self, value: float) -> None:
        """A backward was run on this value; several of one iteration are averaged by their number."""
        self.seen.backwards += 1
        self.seen.loss = value if self.seen.loss is None else self.seen.loss + value
        if self.trial.keep_gradients:
            self.seen.gradients = [None if p.grad is None else p.grad.detach().clone() for p in self.parameters]

    def edit_target(self, target: Tensor) -> Tensor:
        """The target that a loss function is about to be given, changed as the trial asks."""
        if self.same_batch and not self.trial.stream:
            target = _as_before(target, self._kept_targets, len(self.seen.targets))
        self.seen.targets.append(target.detach().clone())
        if self.trial.targets is None:
            return target
        copy = target.detach().clone()
        self.trial.targets([copy])
        self.seen.edited_targets += 1
        return copy

    def edit_targets(self, batch: Any) -> Any:
        """The batch with its targets changed as the trial asks: tensors that do not enter the model."""
        if self.trial.targets is None:
            return batch
        found: list[Tensor] = []
        changed = replaced(batch, lambda t: _collect(t, found) if storage_of(t) not in self.input_ids else t)
        if found:
            self.trial.targets(found)
            self.seen.edited_targets = len(found)
        return changed

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not torch.is_grad_enabled():
            return None
        if self.trial.autocast is not None and self._autocast is None:
            device = next((p.device.type for p in self.parameters), "cpu")
            self._autocast = torch.autocast(device, dtype=self.trial.autocast)
            self._autocast.__enter__()
        if self.trial.evaluating and not self._modes:
            for model in dict.fromkeys([*module.modules(), *self._last.modules()]):
                self._modes.append((model, model.training))
                model.training = False
        if self.seen.inputs:
            return None  # a second call in one iteration
        found: list[Tensor] = []
        if self.same_batch and not self.trial.stream:
            args, kwargs = self._first_inputs(args, kwargs)
        changed = replaced((args, kwargs), lambda t: _collect(t, found))
        if self.trial.inputs is not None and found:
            with torch.no_grad():
                self.trial.inputs(found)
            self.seen.edited_inputs = len(found)
        self.seen.inputs = [t.detach().clone() for t in found] or [torch.empty(0)]
        if self.trial.trace_inputs:
            return replaced(changed, self._traced)
        return changed if self.trial.inputs is not None or self.same_batch else None

    def _traced(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point() or tensor.requires_grad:
            return tensor
        self.seen.traced.append(leaf := tensor.detach().requires_grad_())
        return leaf.clone()  # which may be written to in place, as a leaf may not

    def _first_inputs(self, args: Any, kwargs: Any) -> Any:
        places = iter(range(len(tensors_of((args, kwargs)))))
        return replaced((args, kwargs), lambda t: _as_before(t, self._kept_inputs, next(places)))

    def _after(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        if not torch.is_grad_enabled():
            return
        if self.trial.keep_outputs and not self.seen.outputs:
            found: list[Tensor] = []
            replaced(output, lambda t: (found.append(t.detach().float().clone()) or t) if t.is_floating_point() else t)
            self.seen.outputs = found
            self.seen.reached = _leaves_behind(output)
        if not self.seen.output_dtypes:
            self.seen.output_dtypes = [t.dtype for t in tensors_of(output) if t.is_floating_point()]
        if self._modes:
            self._put_modes_back()

    def _put_modes_back(self) -> None:
        for model, mode in self._modes:
            model.training = mode
        self._modes = []

    def _leave(self) -> None:
        self._put_modes_back()
        if self._autocast is not None:
            self._autocast.__exit__(None, None, None)
            self._autocast = None
        if self._detached is not None:
            self._detached.__exit__(None, None, None)
            behind = self._detached.behind
            self.seen.detached = {i for i, p in enumerate(self.parameters) if id(p) in behind}
            self.seen.detached_at = self._detached.place
            self._detached = None


def _leaves_behind(output: Any) -> set[int] | None:
    """Leaves that the graph of an output ends in; None where none of more than one element has a graph, or it is very large."""
    nodes: list[Any] = [t.grad_fn for t in tensors_of(output) if t.grad_fn is not None and t.numel() > 1]
    return leaves_behind(nodes) if nodes else None


def _as_before(tensor: Tensor, kept: list[Tensor], place: int) -> Tensor:
    """The tensor that stood at this place in the first trial, if it is one of the same kind; now is the first trial otherwise."""
    if place == len(kept):
        kept.append(tensor.detach().clone())
    if (
        place >= len(kept)
        or tensor.requires_grad
        or kept[place].shape != tensor.shape
        or kept[place].dtype != tensor.dtype
    ):
        return tensor
    return kept[place].clone()


def _collect(tensor: Tensor, found: list[Tensor]) -> Tensor:
    copy = tensor.detach().clone()
    found.append(copy)
    return copy.requires_grad_(tensor.requires_grad) if tensor.requires_grad else copy


def storage_of(tensor: Tensor) -> int:
    """Tells whether two tensors are of one storage, while both live."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else id(tensor)


def replaced(value: Any, change: Callable[[Tensor], Tensor], depth: int = 0) -> Any:
    """A structure of tensors with each of them replaced; what is no plain container is left as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if depth == 4:
        return value
    if isinstance(value, dict):
        items = {k: replaced(v, change, depth + 1) for k, v in value.items()}
        return items if type(value) is dict else _same_kind(value, items)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(v, change, depth + 1) for v in value))
    if type(value) in {tuple, list}:
        return type(value)(replaced(v, change, depth + 1) for v in value)
    if hasattr(value, "items") and hasattr(value, "keys") and hasattr(value, "data"):  # a BatchEncoding
        return _same_kind(value, {k: replaced(value[k], change, depth + 1) for k in value})
    return value


def _same_kind(value: Any, items: dict[Any, Any]) -> Any:
    try:
        copy = value.copy() if hasattr(value, "copy") else type(value)(items)
        for key, item in items.items():
            copy[key] = item
    except Exception:  # noqa: BLE001 — of a stranger's class
        return value
    return copy


def tensors_of(value: Any) -> list[Tensor]:
    """All tensors of a structure."""
    found: list[Tensor] = []
    replaced(value, lambda t: (found.append(t), t)[1])
    return found
