"""Which parameters an optimizer steps, and which no optimizer holds, looked up anew only when groups or modules have changed."""

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import torch

from .catalogue import ParameterEntry
from .session import Session
from .weight_changes import Parameters

Optimizers = Iterable[tuple[int, torch.optim.Optimizer]]
"""Numbers of optimizers, and these."""

_LOOK_AGAIN = 64
"""Steps after which the models are walked again for parameters that came in by a way without a hook."""


class _Roster(NamedTuple):
    """Entries and groups of an optimizer's parameters, then those that no optimizer holds. Holds no parameter itself; good as
    long as neither the optimizers' groups nor the modules have changed."""

    regrouped: int
    version: int
    entries: list[ParameterEntry]
    groups: list[int]
    free: list[ParameterEntry]


class Rosters:
    """Whose turn it is when an optimizer steps."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: dict[int, _Roster] = {}
        self._groups: list[list[int]] = []
        """Number of the optimizer and ids of the parameters of each group."""
        self.regrouped = 0
        """How often the groups have changed."""
        self.bare: list[ParameterEntry] = []
        """What the last loss depends on that no module and no optimizer holds."""

    def parameters_of(self, number: int, optimizer: torch.optim.Optimizer) -> Parameters:
        """(parameter, entry, group) of an optimizer, then the models' parameters that no optimizer holds, as group -1."""
        catalogue = self._session.catalogue
        roster = self._of.get(number)
        parameters = list(chain.from_iterable(group["params"] for group in optimizer.param_groups))
        if (
            roster is None
            or roster.regrouped != self.regrouped
            or roster.version != catalogue.version
            or self._session.step % _LOOK_AGAIN == 0
            or len(roster.entries) != len(parameters)
        ):
            prefix = "" if number == 0 else f"optimizer{number}."
            entries = [
                catalogue.parameter(p, prefix, g, i)
                for g, group in enumerate(optimizer.param_groups)
                for i, p in enumerate(group["params"])
            ]
            groups = [g for g, group in enumerate(optimizer.param_groups) for _ in group["params"]]
            if catalogue.calls == 0:
                self._session.on_unseen_models()
            free = [e for p, e in catalogue.model_parameters() if id(p) not in catalogue.holders]
            roster = self._of[number] = _Roster(self.regrouped, catalogue.version, entries, groups, free)
        found = list(zip(parameters, roster.entries, roster.groups, strict=True))
        found += [(p, e, -1) for e in roster.free if (p := e.ref()) is not None and p.requires_grad]
        return found

    def all_parameters(self, optimizers: Optimizers) -> Parameters:
        """(parameter, entry, group) of all that is trained, by these optimizers or without one."""
        found = {id(p): (p, e, -1) for p, e in self._session.catalogue.model_parameters()}
        found |= {id(p): (p, e, -1) for e in self.bare if (p := e.ref()) is not None}
        for number, optimizer in optimizers:
            found |= {id(p): (p, e, g) for p, e, g in self.parameters_of(number, optimizer)}
        return list(found.values())

    def refresh(self, optimizers: Optimizers) -> None:
        """Note which parameter lies in which group, and describe the tensors anew when that has changed."""
        alive = list(optimizers)
        groups = [[number, *map(id, group["params"])] for number, o in alive for group in o.param_groups]
        if groups == self._groups:
            return
        self._groups = groups
        self.regrouped += 1
        self._session.catalogue.holders = {
            id(p): (number, g) for number, o in alive for g, group in enumerate(o.param_groups) for p in group["params"]
        }
        self._session.catalogue.redescribe_parameters()
