"""Rows of `param_groups`: settings of an optimizer's groups, what they consist of, and how far their weights moved."""

from typing import Any

import torch
from torch import Tensor

from ...schemas.files.json_text import json_text
from ...schemas.files.step_values import Row
from ..session.session import Session
from ..tensors.moments import item
from .weight_updates import Change

_UNKNOWN = Change(None, None)

_MOST_ASKED = 32
"""Parameters of a group that are asked for their step counter: those without a gradient have none."""


class GroupRows:
    """Makes the rows of every optimizer of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lrs: dict[tuple[int, int], float] = {}
        self._facts: dict[tuple[int, int], tuple[tuple[int, ...], Row]] = {}

    def notice_lr(self, optimizer_id: int, optimizer: torch.optim.Optimizer) -> None:
        """A learning rate that doubles or halves from one step to the next wants a close look at what it does."""
        for g, group in enumerate(optimizer.param_groups):
            lr = group.get("lr")
            if isinstance(lr, float):
                before = self._lrs.get((optimizer_id, g), lr)
                self._lrs[optimizer_id, g] = lr
                if before > 0 and not 0.5 < lr / before < 2:
                    self.session.budget.full_detail(3, "learning-rate")

    def add(
        self, optimizer_id: int, optimizer: torch.optim.Optimizer, change: dict[int, Change], regrouped: int
    ) -> None:
        """Make a row for each group.

        ``change`` tells of each group whose weights were sampled.
        ``regrouped`` counts how often the groups of the script's optimizers have changed.
        """
        for g, group in enumerate(optimizer.param_groups):
            betas = group.get("betas") or (None, None)
            update, weight = change.get(g, _UNKNOWN)
            self.session.rows.add(
                "param_groups",
                optimizer_id=optimizer_id,
                group_id=g,
                optimizer=type(optimizer).__name__,
                lr=_number(group.get("lr")),
                weight_decay=_number(group.get("weight_decay")),
                momentum=_number(group.get("momentum", betas[0])),
                beta2=_number(betas[1] if len(betas) > 1 else None),
                eps=_number(group.get("eps")),
                settings=_settings(group),
                state_step=_state_step(optimizer, group),
                update_norm=update,
                weight_norm=weight,
                **self._facts_of(optimizer_id, g, group, regrouped),
            )

    def _facts_of(self, optimizer_id: int, g: int, group: dict[str, Any], regrouped: int) -> Row:
        """What a group consists of, looked up again only when groups or modules have changed."""
        params = group["params"]
        now = (id(group), len(params), regrouped, self.session.catalogue.version)
        known = self._facts.get((optimizer_id, g))
        if known is None or known[0] != now:
            facts: Row = {
                "parameters": len(params),
                "numel": sum(p.numel() for p in params),
                # parameters of the group that no module that was ever called owns
                "stray": sum(not self.session.catalogue.owned(p) for p in params),
            }
            known = self._facts[optimizer_id, g] = (now, facts)
        return known[1]


_SAID = {"params", "lr", "weight_decay", "momentum", "betas", "eps"}


def _settings(group: dict[str, Any]) -> str:
    """Settings of a group that have no column, as JSON."""
    plain = {k: v for k, v in group.items() if k not in _SAID and isinstance(v, (bool, int, float, str))}
    return json_text(plain)


def _state_step(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float | None:
    """Largest step counter among the group's first parameters: one that was thawed since begins at 1. None off the host:
    asking would wait."""
    if not optimizer.state:
        return None
    largest = None
    for parameter in group["params"][:_MOST_ASKED]:
        step = optimizer.state[parameter].get("step") if parameter in optimizer.state else None
        if isinstance(step, Tensor):
            if step.device.type != "cpu":
                return None
            step = item(step)
        if isinstance(step, (int, float)) and (largest is None or step > largest):
            largest = float(step)
    return largest


def _number(value: Any) -> float | None:
    """A hyper-parameter as a number; capturable optimizers keep the learning rate in a tensor."""
    if isinstance(value, Tensor) and value.numel() != 1:
        return None
    return float(value) if isinstance(value, (int, float, Tensor)) else None
