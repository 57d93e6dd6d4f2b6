"""Whether the targets of a loss are among the tokens that went in: equal place by place, and reached by a gradient there.

A language model predicts the next token, a masked one those that it does not see. Where each target is the token at its own
place, the gradient tells whether the model could see it: what is shifted or replaced behind the embedding gets none. A few
backward passes of a run are looked at.
"""

from typing import Any

from torch import Tensor

from ...schemas.files.step_values import Row
from ..autograd.graph import LOSSES, loss_nodes, nodes_down_to, saved
from ..autograd.token_lookups import attentions, lookups
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES, measurable
from .rare_looks import RareLooks

_MOST_LOSSES = 4
_FEWEST = 16
"""Targets below which nothing is compared."""

_MOST_ELEMENTS = 1 << 20
_IN_VAIN = 3
"""Looks without any lookup of tokens after which none is taken any more."""


class TargetLookupsWatch(Watch):
    """Writes table `target_lookups`."""

    name = "target-lookups"
    writes = ("target_lookups",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = RareLooks()
        self._in_vain = 0

    def listen(self, signals: Signals) -> None:
        """Look at losses."""
        signals.loss.connect(self.name, self._look)

    def _look(self, loss: Tensor) -> None:
        position = self.session.position
        if self._in_vain >= _IN_VAIN or position.saved_tensor_hooks_used or not self._looks.due(position.step):
            return
        targets = [
            (target, _ignored(node))
            for node, _ in list(loss_nodes(loss))[:_MOST_LOSSES]
            if LOSSES[type(node).__name__] == 1 and (target := saved(node, "target")) is not None
        ]
        targets = [
            (target, ignored)
            for target, ignored in targets
            if type(target) is Tensor
            and not target.is_floating_point()
            and _FEWEST <= target.numel() <= _MOST_ELEMENTS
            and measurable(target)
            and target.device.type not in LATE_DEVICES  # comparing makes the host wait
        ]
        if not targets:
            return
        nodes = nodes_down_to(loss, 0)
        found = False
        facts: Row | None = None
        for target, ignored in targets:
            for node, indices in lookups(nodes, target.numel()):
                found = True
                row = _compared(target.detach().reshape(indices.shape), indices, ignored)
                if row is None:
                    continue
                if facts is None:
                    count, causal = attentions(nodes)
                    facts = {"attentions": count, "causal": causal}
                self._write(node, target.detach().reshape(indices.shape) != ignored, {**row, **facts})
        self._in_vain = 0 if found else self._in_vain + 1

    def _write(self, node: Any, counted: Tensor, facts: Row) -> None:
        session = self.session
        row = session.rows.add(
            "target_lookups",
            seq=session.position.next_seq(),
            module_id=session.answers.module_of(node._sequence_nr()),
            **facts,
        )
        if facts["equal"] < facts["counted"]:
            return
        flushes = session.position.flushes

        def arrived(gradients: tuple[Any, ...]) -> None:
            gradient = gradients[0] if gradients else None
            if isinstance(gradient, Tensor) and session.position.flushes == flushes:
                row.update(_reached(gradient.detach(), counted))

        node.register_prehook(session.guard.guarded(self.name, arrived))


def _ignored(node: Any) -> int:
    index = node._saved_ignore_index if hasattr(node, "_saved_ignore_index") else -100
    return index - (1 << 64) if index >= 1 << 63 else index


def _compared(target: Tensor, indices: Tensor, ignored: int) -> Row | None:
    """Counts of the targets beside the indices at the same places. None where the indices are alike in all rows, as positions
    are, or along each row, so that a shift would not show."""
    if len(indices) > 1 and bool((indices == indices[:1]).all() | (indices == indices[:, :1]).all()):
        return None
    counted = target != ignored
    values, others = target[counted], indices[~counted]
    return {
        "targets": target.numel(),
        "counted": values.numel(),
        "equal": int((values == indices[counted]).sum()),
        "varied": values.numel() > 0 and bool(values.min() != values.max()),
        "others_varied": bool(others.min() != others.max()) if others.numel() else None,
    }


def _reached(gradient: Tensor, counted: Tensor) -> Row:
    if gradient.shape[:-1] != counted.shape:
        return {}
    reached = (gradient != 0).any(-1)
    return {
        "ends_reached": bool(reached[:, -1].any() & reached[-1].any()),
        "counted_reached": float(reached[counted].float().mean()) if bool(counted.any()) else None,
    }
