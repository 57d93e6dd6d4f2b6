"""Probes for those who have a model and a batch at hand.

    from firstfault.recorder import probes

    bench = probes.Bench(model, batch, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))
    probes.can_learn(bench)
    probes.check_all(bench)

The model, the batch and the optimizer are copied; random states are put back after every probe.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas.files.probe_report import ProbeResult
from . import alignment, batch_preparation, data_probes, dependence, flat_terms, future_scale, gradients, learning
from .kernels import repeatable_kernels
from .random_states import random_states, set_random_states
from .stage import Stage, Start, replaced, storage_of, tensors_of
from .trial import Probe, Seen, Setting, Trial

Loss = Callable[[Any, Any], Tensor]

PROBES: dict[str, Callable[[Setting], Probe]] = {
    **dependence.ALL,
    **data_probes.ALL,
    **alignment.ALL,
    **batch_preparation.ALL,
    **future_scale.ALL,
    **gradients.ALL,
    **learning.ALL,
    **flat_terms.ALL,
}
"""Every probe that is made of trials, by name."""


class Bench:
    """A copy of a model with one batch, on which trials are made. ``loss(model, batch)`` gives the loss to minimise."""

    def __init__(
        self,
        model: nn.Module,
        batch: Any,
        loss: Loss,
        optimizer: torch.optim.Optimizer | None = None,
        batches: list[Any] | None = None,
    ) -> None:
        self.random = random_states()
        memo: dict[int, Any] = {}
        self.model = copy.deepcopy(model, memo)
        self.optimizer = copy.deepcopy(optimizer, memo) if optimizer is not None else _adam(self.model)
        self.loss = loss
        self.batch = replaced(batch, lambda t: t.detach().clone())
        self.batches = [replaced(b, lambda t: t.detach().clone()) for b in batches or []]
        start = Start([self.model], [self.optimizer])
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        self.stage = Stage(self.model, self.model, [p for _, p in named], [self.optimizer], start)
        self.setting = Setting([n for n, _ in named], [p for _, p in named], _rate(self.optimizer))
        self.setting.padding_rows = gradients.padding_rows([self.model], self.setting.parameters)
        self._streamed = 0
        set_random_states(self.random)
        self._find_batch_inputs()

    def _find_batch_inputs(self) -> None:
        """Find out which tensors of the batch enter the model."""
        entered: set[int] = set()

        def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            entered.update(storage_of(t) for t in tensors_of((args, kwargs)))

        handle = self.model.register_forward_pre_hook(note, with_kwargs=True)
        try:
            with torch.enable_grad():
                self.loss(self.model, self.batch)
        finally:
            handle.remove()
            self.stage.start.restore()
            set_random_states(self.random)
        self.stage.input_ids = entered
        self.setting.batch = fields = tensors_of(self.batch)
        self.setting.targets = [t for t in fields if storage_of(t) not in entered]
        sizes = {t.shape[0] for t in fields if t.dim()}
        self.setting.batch_size = sizes.pop() if len(sizes) == 1 else None

    def run(self, trial: Trial) -> Seen:
        """Make one trial."""
        self.stage.begin(trial)
        batch = self.batch
        if trial.stream and self.batches:
            batch = self.batches[self._streamed % len(self.batches)]
            self._streamed += 1
        places = [i for i, t in enumerate(tensors_of(self.batch)) if storage_of(t) not in self.stage.input_ids]
        self.stage.seen.targets = [t for i, t in enumerate(tensors_of(batch)) if i in places]
        if trial.batch is not None:
            batch = replaced(batch, lambda t: t.detach().clone())
            trial.batch(tensors_of(batch))
        batch = self.stage.edit_targets(batch)
        self.optimizer.zero_grad()
        loss = self.loss(self.model, batch)
        self.stage.seen.loss = None
        loss.backward()
        self.stage.lost(float(loss.detach()))
        self.stage.before_step(self.optimizer)
        self.optimizer.step()
        return self.stage.end()

    def try_probe(self, probe: Probe) -> ProbeResult:
        """Run a probe to its result; everything is as before afterwards."""
        before = random_states()
        try:
            with repeatable_kernels():
                trial = next(probe)
                while True:
                    trial = probe.send(self.run(trial))
        except StopIteration as e:
            return e.value
        finally:
            self.stage.start.restore()
            set_random_states(before)


def check_all(bench: Bench) -> list[ProbeResult]:
    """Every probe that a model and a batch allow."""
    return [bench.try_probe(make(bench.setting)) for make in PROBES.values()]


def can_learn(bench: Bench, steps: int = learning.STEPS) -> ProbeResult:
    """Train on the batch over and over: does the loss fall, in how many steps, and which parameters take no part."""
    return bench.try_probe(learning.can_learn(bench.setting, steps))


def lr_range(bench: Bench, steps: int = learning.STEPS) -> ProbeResult:
    """Raise the learning rate exponentially: the band in which the loss falls, and where the optimizer's own lies."""
    return bench.try_probe(learning.lr_range(bench.setting, steps))


def repeatable(bench: Bench) -> ProbeResult:
    """Make one iteration twice: are loss and gradients the same bits?"""
    return bench.try_probe(learning.repeatable(bench.setting))


def samples_alone(bench: Bench) -> ProbeResult:
    """Change one sample: only its own outputs may change."""
    return bench.try_probe(dependence.samples(bench.setting))


def future_hidden(bench: Bench) -> ProbeResult:
    """Change later tokens of a language model: earlier outputs may not change."""
    return bench.try_probe(dependence.future_tokens(bench.setting))


def target_counts(bench: Bench) -> ProbeResult:
    """Change the targets: the loss must change."""
    return bench.try_probe(dependence.targets(bench.setting))


def input_counts(bench: Bench) -> ProbeResult:
    """Change the inputs: the loss must change."""
    return bench.try_probe(dependence.inputs(bench.setting))


def gradients_right(bench: Bench, directions: int = 3) -> ProbeResult:
    """Compare autograd with differences of the loss along random directions."""
    return bench.try_probe(gradients.directional(bench.setting, directions))


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)


def _rate(optimizer: torch.optim.Optimizer) -> float:
    rates = [optimizer.defaults.get("lr", 0.0)]
    rates += [value for g in optimizer.param_groups for value in (g.get("lr", 0.0), g.get("initial_lr", 0.0))]
    return max(float(rate) for rate in rates)
