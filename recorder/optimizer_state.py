"""What an optimizer keeps for each weight: moments, momentum buffers, and whatever else has the weight's shape.

Measured right after the step, on the same sample of elements as the change of the weights.
"""

import weakref
from time import perf_counter_ns
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor

from ..schemas import Phase
from .element_sample import gather, sample_size
from .optimizers import OptimizerWatch
from .patches import Patches
from .session import Session
from .statistics import measurable, measure_all


class OptimizerStateWatch:
    """Writes rows of kind ``optimizer_state``, named after the weight and the key in the state: `head.weight.exp_avg`."""

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        self.session = session
        self.optimizers = optimizers
        self._stepping: weakref.ref[torch.optim.Optimizer] | None = None
        self._ids: dict[tuple[int, str], int] = {}
        """(tensor_id of the parameter, key) → tensor_id."""
        session.at_finish.append(session.guarded("optimizer-state", self._measure))

    def install(self, patches: Patches) -> None:
        """Note which optimizer steps; the row of the step is made when it has."""
        note = self.session.guarded("optimizer-state", self._note)
        patches.handles([optim.register_optimizer_step_pre_hook(note)])

    def _note(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        if not self.session.in_backward:
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
            chosen = [tensors[i] for i in members]
            pieces = gather(chosen).split([sample_size(t) for t in chosen])
            for i, moments in zip(members, measure_all(pieces), strict=True):
                session.stat(ids[i], Phase.OPTIMIZER, moments)
        session.budget.spent("optimizer_state", perf_counter_ns() - began, len(tensors))

    def _state_of(self, optimizer: torch.optim.Optimizer) -> tuple[list[Tensor], list[int]]:
        """State tensors worth measuring, with their tensor_ids."""
        catalogue = self.session.catalogue
        held = self.optimizers.found(optimizer)
        prefix = "" if held.id == 0 else f"optimizer{held.id}."
        tensors: list[Tensor] = []
        ids: list[int] = []
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                state = optimizer.state.get(parameter)
                if not isinstance(state, dict):
                    continue
                for key, value in state.items():
                    if (
                        key == "step"
                        or not isinstance(value, Tensor)
                        or value.shape != parameter.shape
                        or not value.is_floating_point()
                        or value.layout is not torch.strided
                        or not value.numel()
                        or not measurable(value)
                    ):
                        continue
                    entry = catalogue.parameter(parameter, prefix, g, i)
                    id_ = self._ids.get((entry.parameter_id, key))
                    if id_ is None:
                        name = f"{entry.name}.{key}"
                        id_ = catalogue.tensor(entry.module_id, name, "optimizer_state", value)
                        self._ids[entry.parameter_id, key] = id_
                    if id_ not in catalogue.excluded:
                        tensors.append(value)
                        ids.append(id_)
        return tensors, ids
