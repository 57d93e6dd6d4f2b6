"""Operators of a loss that are given what they do not take: each look writes a row of `operators` with trigger ``risk``."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ..autograd.broadcasts import broadcast_in_loss
from ..autograd.graph import (
    activated_twice,
    bounded_prediction,
    kl_of_probabilities,
    operator_name,
    rectified_logits,
    reversed_objective,
    saved_tensor,
    softmax_elsewhere,
)
from ..autograd.loss_code import Made, nodes_of_loss_code
from ..autograd.masked_means import masked_mean
from ..autograd.masks_as_indices import mask_as_index
from ..autograd.soft_targets import softmax_beside_targets
from ..session.session import Session
from ..tensors.device import scalar_of
from ..tensors.moments import LATE_DEVICES, measurable

_ROUNDING = 1e-3
"""Logarithms of probabilities above 0 by less than this are rounding."""

MOST_OF_A_LOSS = 1 << 18
"""Elements of a loss's input up to which it is measured: a larger one (log-probabilities of a vocabulary) is the last
output of the model over again."""


class LossOperators:
    """Looks at the graph of a loss, and at each of its loss operators. ``looking``: whether this loss is looked at closely."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_loss(self, loss: Tensor, calls: Callable[[], list[Made]], *, looking: bool) -> None:
        """Look for logarithms that are missing, for a prediction that was stretched against its target, and for a mean over what
        a mask left. ``calls`` gives those of modules that made its graph."""
        if not looking:
            return
        if kl_of_probabilities(loss):
            self._row("KlDiv", "probabilities")
        nodes = nodes_of_loss_code(loss, calls(), self.holds_weights)
        found = broadcast_in_loss(nodes)
        if found is not None:
            self._row("Broadcast", f"{found.what} {found.given}", shape=found.result, numel=found.result[0] ** 2)

        if loss.device.type in LATE_DEVICES or self._session.position.saved_tensor_hooks_used:
            return  # looking at a mask makes the host wait, or runs what the script does with saved tensors
        flags = mask_as_index(nodes)
        if flags is not None:
            self._row("Index", "flags", shape=[flags[0]], numel=flags[0], zero_count=flags[0] - flags[1])
        beside = softmax_beside_targets(loss)
        if beside is not None:
            self._row("SoftTargets", f"dimension {beside[0]} of {beside[1]}", shape=beside[2])
        padded = masked_mean(loss)
        if padded is not None:
            self._row(
                "MaskedMean",
                "mask",
                shape=padded.shape,
                numel=padded.places,
                zero_count=padded.left_out,
                max=padded.factor,
            )

    def holds_weights(self, module_id: int) -> bool:
        """Whether a module has weights, its own or those of modules in it."""
        entry = self._session.catalogue.module(module_id)
        module = entry.ref() if entry is not None else None
        return module is not None and next(module.parameters(), None) is not None

    def sign_of(self, loss: Tensor) -> None:
        """Look for an error, written out by hand, that is made large, and for a likelihood that is made small."""
        found = reversed_objective(loss)
        if found is not None:
            self._row(*found)

    def of_node(self, node: Any, *, looking: bool) -> None:
        """Look at what one loss operator was given."""
        if looking and (elsewhere := softmax_elsewhere(node)) is not None:
            self._row(operator_name(node), f"dimension {elsewhere[0]}", shape=elsewhere[1])
        found = activated_twice(node)
        if found is None and looking:
            found = bounded_prediction(node) or rectified_logits(node)
        if found is not None:
            self._row(operator_name(node), found, **_range_of_target(node))
        self._alignment(node, looking=looking)
        if looking:
            self._blanks(node)
            self._lengths(node)

    def _alignment(self, node: Any, *, looking: bool) -> None:
        """Look whether what a CTC loss takes for logarithms of probabilities is above 0."""
        given = saved_tensor(node, "log_probs")
        if given is None or given.numel() > MOST_OF_A_LOSS or not measurable(given):
            return
        if given.device.type in LATE_DEVICES and not looking:
            return  # looking at it makes the host wait
        high = scalar_of(given.detach().max())
        if isinstance(high, float) and high > _ROUNDING:
            dtype = str(given.dtype).removeprefix("torch.")
            self._row(
                operator_name(node), "log_probs", dtype=dtype, shape=list(given.shape), numel=given.numel(), max=high
            )

    def _blanks(self, node: Any) -> None:
        """Look whether the targets of a CTC loss hold the blank, which has no output of its own."""
        given, targets = saved_tensor(node, "log_probs"), saved_tensor(node, "targets")
        if given is None or targets is None or targets.numel() > MOST_OF_A_LOSS or not measurable(targets):
            return
        if targets.dim() == 2:  # what stands behind the length of a row is padding
            lengths = torch.as_tensor(node._saved_target_lengths, device=targets.device)
            targets = targets[torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]]
        blanks = int((targets == node._saved_blank).sum())
        if blanks:
            self._row(
                operator_name(node),
                "blank",
                shape=list(given.shape),
                numel=targets.numel(),
                zero_count=blanks,
                min=float(targets.min()),
                max=float(targets.max()),
            )

    def _lengths(self, node: Any) -> None:
        """Count the targets of a CTC loss that do not fit into their input, where it makes infinite losses zero. ``min`` and
        ``max`` are the lengths of input and target of the worst one."""
        if not getattr(node, "_saved_zero_infinity", False):
            return  # an infinite loss shows by itself
        frames, wanted = (torch.as_tensor(getattr(node, f"_saved_{side}_lengths")) for side in ("input", "target"))
        if frames.device.type != "cpu" or wanted.device.type != "cpu":
            return  # looking at it makes the host wait
        if not wanted.numel():
            return
        short = wanted > frames
        worst = int((wanted - frames).argmax())
        self._row(
            operator_name(node),
            "lengths",
            numel=short.numel(),
            zero_count=int(short.sum()),
            min=float(frames.reshape(-1)[worst]),
            max=float(wanted.reshape(-1)[worst]),
        )

    def _row(self, op: str, what: str, **facts: object) -> None:
        seq = self._session.position.next_seq()
        self._session.rows.add("operators", seq=seq, phase=int(Phase.LOSS), op=op, saved=what, trigger="risk", **facts)


def _range_of_target(node: Any) -> dict[str, object]:
    """``min`` and ``max`` of the target that an operator has saved: a loss may have several, each with its own."""
    target = saved_tensor(node, "target")
    if target is None or not target.is_cpu or not 0 < target.numel() <= MOST_OF_A_LOSS or not measurable(target):
        return {}
    low, high = torch.aminmax(target.detach())
    return {"min": float(low), "max": float(high)}
