"""Whether a token that both fills and ends texts is ever learnt: the targets of a loss, and which of them count for it.

A target counts where the gradient of its scores is not zero: however the others are left out, by ``ignore_index``, by a weight
or by a mask of the losses.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.probe_report import ProbeResult
from ..script.frames import shown
from ..script.written_tokens import end_in_use
from .trial import result

_MOST = 4
_LARGEST = 1 << 26
_MOVED = 0.99
"""Share of counted targets that are the token that follows, as the probe of later tokens has it."""


class Targets:
    """The targets of the first calls of a loss on scores of classes, and which of them count."""

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Tensor]] = []

    def watch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note a call of cross_entropy or nll_loss; whether targets count is known after its backward."""
        scores = kwargs.get("input", args[0] if args else None)
        target = kwargs.get("target", args[1] if len(args) > 1 else None)
        if len(self.seen) >= _MOST or not isinstance(scores, Tensor) or not isinstance(target, Tensor):
            return
        if target.is_floating_point() or scores.dim() < 2 or not scores.requires_grad or scores.numel() > _LARGEST:
            return
        kept = target.detach().clone().flatten().cpu()

        def counted(gradient: Tensor) -> None:
            with contextlib.suppress(Exception), torch.no_grad():
                if len(self.seen) < _MOST:
                    self.seen.append((kept, (gradient != 0).any(1).flatten().cpu()))

        scores.register_hook(counted)


def ends_learnt(
    known: Iterable[dict[str, int]], tokens: Iterable[Tensor], targets: Targets, files: Iterable[str]
) -> list[ProbeResult]:
    """Whether a loss counts a token that ends texts, where padding has its number.

    ``known``: numbers for padding and the end, by each tokenizer, vocabulary and function of the script. ``tokens``: what entered
    the model. ``files``: the script's own.
    """
    both = [numbers for numbers in known if "eos" in numbers and "pad" in numbers]
    ends = {numbers["eos"] for numbers in both}
    if len(ends) != 1 or any(numbers["pad"] != numbers["eos"] for numbers in both):
        return []
    (end,) = ends
    left_out = False
    for entered in tokens:
        if entered.is_floating_point() or entered.dim() != 2 or entered.shape[1] < 2:
            continue
        for target, counts in targets.seen:
            if len(target) != len(counts) or not _follow(entered.cpu(), target, counts):
                continue
            if bool((counts & (target == end)).any()):
                return [result("pad-is-eos", "passed", "end-counts", number=end)]
            left_out |= bool((~counts & (target == end)).any()) or bool(
                (~counts & (target < 0)).any() and (entered == end).any()
            )
    if not left_out:
        return []
    for file in files:
        if (line := end_in_use(file)) is not None:
            return [result("pad-is-eos", "doubtful", "end-never-counts", number=end, place=f"{shown(file)}:{line}")]
    return []  # no text is to have an end


def _follow(tokens: Tensor, target: Tensor, counts: Tensor) -> bool:
    """Whether targets that count are the tokens that follow."""
    rows, width = tokens.shape
    if len(target) not in {rows * width, rows * (width - 1)}:
        return False
    shaped, chosen = (t.reshape(rows, -1)[:, : width - 1] for t in (target, counts))
    same = (shaped == tokens[:, 1:])[chosen]
    return len(same) >= 4 and float(same.float().mean()) >= _MOVED
