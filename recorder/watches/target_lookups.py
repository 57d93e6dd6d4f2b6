"""Whether the targets of a loss are among the tokens that went in: equal place by place, and reached by a gradient there; or
equal to the tokens one place later, and shown by attention.

A language model predicts the next token, a masked one those that it does not see. Where each target is the token at its own
place, the gradient tells whether the model could see it: what is shifted or replaced behind the embedding gets none. Where it is
the token after it, attention must not look there; where it is the token after that, it was shifted twice. A few backward passes
of a run are looked at.
"""

from typing import Any

from torch import Tensor

from ...schemas.files.step_values import Row
from ..autograd.graph import LOSSES, loss_nodes, nodes_down_to, saved_tensor
from ..autograd.token_lookups import alike, alone, attentions, looking_ahead, lookups
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
        signals.loss.connect(self.name, self._find_lookups)

    def _find_lookups(self, loss: Tensor) -> None:
        position = self.session.position
        if self._in_vain >= _IN_VAIN or position.saved_tensor_hooks_used or not self._looks.due(position.step):
            return
        targets = [
            (target, _ignored(node))
            for node, _ in list(loss_nodes(loss))[:_MOST_LOSSES]
            if LOSSES[type(node).__name__] == 1 and (target := saved_tensor(node, "target")) is not None
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
        seen: tuple[int, int] | None = None
        for target, ignored in targets:
            for node, indices in lookups(nodes):
                at_places = _laid_out(target.detach(), indices)
                if at_places is None:
                    continue
                found = True
                if alike(indices):
                    continue
                count, causal = seen = seen or attentions(nodes)
                row = _compared(at_places, indices[:, : at_places.shape[1]], ignored)
                later = _places_later(at_places, indices, ignored)
                if later is not None and at_places.shape != indices.shape:
                    later -= _left_out_in_front(nodes, indices.shape[1])
                row |= {"attentions": count, "causal": causal, "later": later}
                if count > causal:
                    row |= _later(at_places, indices, ignored, (nodes, node))
                self._write(node, at_places != ignored, row)
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


def _laid_out(target: Tensor, indices: Tensor) -> Tensor | None:
    """The targets beside the indices: one for each, or for each but one of a row, where logits and tokens were shifted."""
    rows, length = indices.shape
    if target.numel() == rows * length:
        return target.reshape(rows, length)
    if length > 1 and target.numel() == rows * (length - 1):
        return target.reshape(rows, length - 1)
    return None


def _compared(target: Tensor, indices: Tensor, ignored: int) -> Row:
    """Counts of the targets beside the indices at the same places."""
    counted = target != ignored
    values, at_places, others = target[counted], indices[counted], indices[~counted]
    unlike = at_places[values != at_places]
    masked = 0
    if unlike.numel():
        mark = unlike.mode().values
        masked = 0 if bool((values == mark).any()) else int((unlike == mark).sum())
    return {
        "targets": target.numel(),
        "counted": values.numel(),
        "equal": values.numel() - unlike.numel(),
        "masked": masked,
        "varied": values.numel() > 0 and bool(values.min() != values.max()),
        "others_varied": bool(others.min() != others.max()) if others.numel() else None,
    }


def _later(target: Tensor, indices: Tensor, ignored: int, graph: tuple[list[Any], Any]) -> Row:
    """Counts of the targets beside the indices one place later, along the dimension in which more of them are equal, and of
    the attention of that length that looks there. ``graph``: the nodes behind the loss, and the lookup of these indices."""
    nodes, lookup = graph
    best: Row = {}
    for axis in (1, 0):
        length = indices.shape[axis]
        there = min(target.shape[axis], length - 1)
        if there < 1 or target.shape[1 - axis] != indices.shape[1 - axis]:
            continue
        values = target.narrow(axis, 0, there)
        counted = values != ignored
        equal = int(((values == indices.narrow(axis, 1, there)) & counted).sum())
        if not best or equal > best["next_equal"]:
            best = {"next_places": int(counted.sum()), "next_equal": equal, "length": length}
    if best and best["next_equal"] == best["next_places"] > 0:
        best["ahead"] = looking_ahead(nodes, lookup, best["length"]) if alone(nodes, indices) else 0
    best.pop("length", None)
    return best


def _places_later(target: Tensor, indices: Tensor, ignored: int) -> int | None:
    """By how many places all counted targets are later tokens of their own sequence."""
    for places in (1, 2):
        for axis in (1, 0):
            there = min(target.shape[axis], indices.shape[axis] - places)
            if there < 1 or target.shape[1 - axis] != indices.shape[1 - axis]:
                continue
            values, later = target.narrow(axis, 0, there), indices.narrow(axis, places, there)
            counted = values != ignored
            values, later = values[counted], later[counted]
            if values.numel() >= _FEWEST and bool((values == later).all()) and bool(values.min() != values.max()):
                return places
    return None


def _left_out_in_front(nodes: list[Any], length: int) -> int:
    """How many outputs of a sequence were left out at its beginning, as by ``logits[:, 1:]``; the others moved up to them."""
    for node in nodes:
        if type(node).__name__ == "SliceBackward0" and node._saved_dim == 1 and 0 < node._saved_start < length:
            sizes = node._saved_self_sym_sizes
            if len(sizes) > 1 and sizes[1] == length:
                return int(node._saved_start)
    return 0


def _reached(gradient: Tensor, counted: Tensor) -> Row:
    if gradient.shape[:-1] != counted.shape:
        return {}
    reached = (gradient != 0).any(-1)
    return {
        "ends_reached": bool(reached[:, -1].any() & reached[-1].any()),
        "counted_reached": float(reached[counted].float().mean()) if bool(counted.any()) else None,
    }
