"""What an optimizer keeps for each weight: moments, momentum buffers, and whatever else has the weight's shape.

Measured right after the step, on the same sample of elements as the change of the weights.
"""

import weakref
from time import perf_counter_ns
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor

from ...schemas import Phase
from ..loop.optimizers import OptimizerWatch
from ..script.wrappers import local
from ..session.patches import Patches
from ..session.registry import ParameterEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.element_sample import Sampling
from ..tensors.moments import measurable


class OptimizerStateWatch(Watch):
    """Writes rows of kind ``optimizer_state``, named after the weight and the key in the state: `head.weight.exp_avg`."""

    name = "optimizer-state"
    writes = ("tensor_stats:optimizer_state", "tensors:optimizer_state")

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self.optimizers = optimizers
        self._stepping: weakref.ref[torch.optim.Optimizer] | None = None
        self._ids: dict[tuple[int, str], tuple[weakref.ref[Tensor], int | None]] = {}
        """(tensor_id of the parameter, key) → which object its state is, and the state's tensor_id."""

    def listen(self, signals: Signals) -> None:
        """Measure after each step."""
        signals.row_ends.connect(self.name, self._measure)

    def install(self, patches: Patches) -> None:
        """Note which optimizer steps; the row of the step is made when it has."""
        hooks = [optim.register_optimizer_step_pre_hook(self.guarded(self._note_step))]
        patches.handles(hooks)
        patches.resting_hooks += hooks

    def _note_step(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if not self.session.position.in_backward:
            self._stepping = weakref.ref(optimizer)

    def _measure(self) -> None:
        optimizer = self._stepping() if self._stepping is not None else None
        self._stepping = None
        session = self.session
        if optimizer is None or not optimizer.state or not session.budget.due("optimizer_state"):
            return
        began = perf_counter_ns()
        tensors, ids = self._state_of(optimizer)
        by_device: dict[torch.device, list[int]] = {}
        for i, tensor in enumerate(tensors):
            by_device.setdefault(tensor.device, []).append(i)
        for members in by_device.values():
            chosen = tensors if len(members) == len(tensors) else [tensors[i] for i in members]
            sampling = Sampling(chosen)
            session.rows.add_all_tensor_stats(
                [ids[i] for i in members],
                Phase.OPTIMIZER,
                sampling.measure(sampling.take(chosen)),
                [None] * len(members),
            )
        session.budget.spent("optimizer_state", perf_counter_ns() - began, len(tensors))

    def _state_of(self, optimizer: torch.optim.Optimizer) -> tuple[list[Tensor], list[int]]:
        """State tensors worth measuring, with their tensor_ids."""
        known = self._ids
        excluded = self.session.catalogue.excluded
        states = optimizer.state
        tensors: list[Tensor] = []
        ids: list[int] = []
        stepping = self.optimizers.stepping
        for parameter, entry, _ in stepping.parameters if stepping is not None else ():
            state = states.get(parameter)
            if not isinstance(state, dict):
                continue
            for key, value in state.items():
                if key == "step" or not isinstance(value, Tensor):
                    continue
                place = (entry.parameter_id, key)
                kept = known.get(place)
                if kept is None or kept[0]() is not value:  # an optimizer changes its state in place
                    kept = known[place] = (weakref.ref(value), self._id_of(parameter, entry, key, value))
                if kept[1] is not None and kept[1] not in excluded:
                    tensors.append(local(value))
                    ids.append(kept[1])
        return tensors, ids

    def _id_of(self, parameter: Tensor, entry: ParameterEntry, key: str, value: Tensor) -> int | None:
        """The tensor_id of a state tensor; None if it is not one of a number for each element of its parameter."""
        if (
            value.shape != parameter.shape
            or not value.is_floating_point()
            or value.layout is not torch.strided
            or not local(value).numel()
            or not measurable(local(value))
        ):
            return None
        return self.session.catalogue.tensor(entry.module_id, f"{entry.name}.{key}", "optimizer_state", value)
