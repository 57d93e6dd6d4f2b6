"""Which parameters an optimizer steps, and which no optimizer holds, looked up again only when groups or modules have changed."""

import weakref
from collections.abc import Callable, Iterable
from functools import partial
from operator import is_

import torch
from torch import Tensor

from ..base.identity_map import IdentityMap
from ..session.registry import ParameterEntry
from ..session.session import Session
from .weight_updates import Parameters

Optimizers = Iterable[tuple[int, torch.optim.Optimizer]]
"""Numbers of optimizers, and these."""

_LOOK_AGAIN = 64
"""Steps after which the models are walked again for parameters that came in by a way without a hook."""


class _Roster:
    """An optimizer's groups and parameters as they were last seen. It is gone with the optimizer, which holds them anyway."""

    __slots__ = ("found", "free", "groups", "number", "ref", "regrouped", "version")

    def __init__(self, number: int, optimizer: torch.optim.Optimizer, gone: Callable[..., None]) -> None:
        self.number = number
        self.ref = weakref.ref(optimizer, gone)
        self.groups: list[list[Tensor]] = [list(group["params"]) for group in optimizer.param_groups]
        self.found: Parameters = []
        """(parameter, entry, group), good as long as neither any optimizer's groups nor the modules have changed."""
        self.free: list[ParameterEntry] = []
        """Of those that no optimizer holds."""
        self.regrouped = self.version = -1

    def still(self, number: int, optimizer: torch.optim.Optimizer) -> bool:
        """Whether the groups are what they were. Asked at every step: with as little Python for each parameter as can be."""
        groups = optimizer.param_groups
        if self.ref() is not optimizer or number != self.number or len(groups) != len(self.groups):
            return False
        return all(
            len(group["params"]) == len(seen) and all(map(is_, group["params"], seen))
            for group, seen in zip(groups, self.groups, strict=True)
        )


class Rosters:
    """Whose turn it is when an optimizer steps."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of: dict[int, _Roster] = {}
        """By the id of the optimizer."""
        self._stale = True
        """Whether an optimizer has come or gone since the last look."""
        self.regrouped = 0
        """How often the groups have changed."""
        self.bare: list[ParameterEntry] = []
        """What the last loss depends on that no module and no optimizer holds."""

    def parameters_of(self, number: int, optimizer: torch.optim.Optimizer) -> Parameters:
        """(parameter, entry, group) of an optimizer, then the models' parameters that no optimizer holds, as group -1. To be
        asked after ``refresh``."""
        catalogue = self._session.catalogue
        roster = self._of.get(id(optimizer)) or self._note_roster(number, optimizer)
        if (
            roster.regrouped != self.regrouped
            or roster.version != catalogue.version
            or self._session.position.step % _LOOK_AGAIN == 0
        ):
            prefix = "" if number == 0 else f"optimizer{number}."
            roster.found = [
                (p, catalogue.parameter(p, prefix, g, i), g)
                for g, group in enumerate(roster.groups)
                for i, p in enumerate(group)
            ]
            # before the first gradient a closure has still to call what is trained
            if catalogue.calls == 0 and any(p.grad is not None for p, _, _ in roster.found):
                self._session.signals.unseen_models.emit()
            roster.free = [e for p, e in catalogue.model_parameters() if p not in catalogue.holders]
            roster.regrouped, roster.version = self.regrouped, catalogue.version
        return [*roster.found, *((p, e, -1) for e in roster.free if (p := e.ref()) is not None and p.requires_grad)]

    def all_parameters(self, optimizers: Optimizers) -> Parameters:
        """(parameter, entry, group) of all that is trained, by these optimizers or without one."""
        found = {id(p): (p, e, -1) for p, e in self._session.catalogue.model_parameters()}
        found |= {id(p): (p, e, -1) for e in self.bare if (p := e.ref()) is not None}
        for number, optimizer in optimizers:
            found |= {id(p): (p, e, g) for p, e, g in self.parameters_of(number, optimizer)}
        return list(found.values())

    def refresh(self, optimizers: Optimizers) -> None:
        """Note which parameter lies in which group, and describe the tensors again when that has changed."""
        alive = list(optimizers)
        rosters = [self._of.get(id(o)) for _, o in alive]
        if (
            not self._stale
            and len(alive) == len(self._of)
            and all(
                roster is not None and roster.still(number, o)
                for roster, (number, o) in zip(rosters, alive, strict=True)
            )
        ):
            return
        self._of.clear()
        for number, o in alive:
            self._note_roster(number, o)
        self._stale = False
        self.regrouped += 1
        holders = self._session.catalogue.holders = IdentityMap()
        for number, o in alive:
            for g, group in enumerate(o.param_groups):
                for p in group["params"]:
                    holders[p] = number, g
        self._session.catalogue.redescribe_parameters()

    def _note_roster(self, number: int, optimizer: torch.optim.Optimizer) -> _Roster:
        self._stale = True
        key = id(optimizer)
        roster = self._of[key] = _Roster(number, optimizer, partial(self._gone, key))
        return roster

    def _gone(self, key: int, ref: "weakref.ref[torch.optim.Optimizer]") -> None:
        roster = self._of.get(key)
        if roster is not None and roster.ref is ref:  # another may have the same address by now
            del self._of[key]
            self._stale = True
