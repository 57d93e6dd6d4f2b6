"""Which tokens of a step are padding, and whether a loss counts their targets."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..session.session import Session
from ..tensors.device import join_when_ready, scalar_of
from .sequence_ends import ignored_between, sequence_ends

_MOST_LOOKED_UP = 3
_EACH_STEP = 8
_EVERY = 8
"""Tokens are looked at in the first steps, then in every so many."""


class TokenPadding:
    """Return what is padding among the tokens of this step; tokens and mask are [samples, length].

    It is the ``padding_idx`` of their embedding. Where that has none, it is the one value of all tokens under the zeros of a
    mask that came with them.
    """

    def __init__(self, session: Session, fields: Callable[[], dict[str, Tensor]]) -> None:
        self.session = session
        self._fields = fields
        self._step = -1
        """The step in which all that follows was looked up: not every step ends with a row, at which it would be forgotten."""
        self._tokens: Tensor | None = None
        self._hidden: Tensor | None = None
        self._under_mask: tuple[Tensor, Tensor] | None = None
        """The smallest and the largest token under the zeros of the mask."""
        self._looked_up: list[Tensor] = []
        """What embeddings looked up in this step."""
        self._mask: Tensor | None = None
        self._masked: Tensor | None = None
        """The tokens that were looked up first under this mask."""

    @property
    def tokens(self) -> Tensor | None:
        """Where the tokens of this step are the embedding's padding (or 0), for whoever looks at attention."""
        return self._tokens if self._step == self.session.position.step else None

    def due(self) -> bool:
        step = self.session.position.step
        return step < _EACH_STEP or step % _EVERY == 0

    def forget(self) -> None:
        self._tokens = self._hidden = self._under_mask = self._mask = self._masked = None
        self._looked_up = []

    def note(self, embedding: nn.Module, tokens: Tensor) -> None:
        """Called with what an embedding looks up."""
        if tokens.dim() != 2 or not self.due():
            return
        if self._step != self.session.position.step:
            self.forget()
            self._step = self.session.position.step
        tokens = tokens.detach()
        self._looked_up = [*self._looked_up[-_MOST_LOOKED_UP:], tokens]
        mask = self._mask_of(tokens)
        if new := mask is not None and mask is not self._mask:
            self._mask, self._masked = mask, tokens
        index = getattr(embedding, "padding_idx", None)
        if index is not None:
            self._tokens = self._hidden = tokens == index
            self._under_mask = None
            return
        if self._tokens is None:
            self._tokens = tokens == 0
        if new and mask is not None:
            self._hidden = mask.detach() == 0
            limits = torch.iinfo(tokens.dtype)
            self._under_mask = _ends(tokens, self._hidden, limits)

    def _mask_of(self, tokens: Tensor) -> Tensor | None:
        for name, field in self._fields().items():
            if (
                "mask" in name
                and field.shape == tokens.shape
                and field.device == tokens.device
                and type(field) is Tensor
            ):
                return field
        return None

    def in_targets(self, target: Tensor, ignore_index: int | None) -> dict[str, Any]:
        """What the targets of a loss say of padding: whether they count there, and whether ends of sequences are taken for it."""
        if self._step != self.session.position.step:
            return {}
        ends: dict[str, Any] = {}
        if self._masked is not None and self._mask is not None and ignore_index is not None:
            ends = sequence_ends(self._masked, self._mask.detach() == 0, target, ignore_index)
        between = ignored_between(self._looked_up, target, ignore_index) if self._looked_up else {}
        return self._counted(target, ignore_index) | ends | between

    def _counted(self, target: Tensor, ignore_index: int | None) -> dict[str, Any]:
        """``padding_fraction`` and ``padding_counted`` of the targets of a loss, one for each token of this step (or for each
        but the first of a sample); nothing is said where they are not, or where the padding that counts has targets of several
        values: then they are ordered otherwise."""
        hidden = self._hidden
        if hidden is None or target.device != hidden.device:
            return {}
        if target.numel() == hidden.numel() - hidden.shape[0]:
            hidden = hidden[:, 1:]
        if target.numel() != hidden.numel():
            return {}
        with torch.no_grad():
            if ignore_index is not None:
                # where targets were shifted in place, the last one of each sample is ignored because there is none
                last = target.detach().reshape(hidden.shape)[:, -1:]
                hidden = torch.cat([hidden[:, :-1], hidden[:, -1:] & (last != ignore_index).any()], 1)
            flat, hidden = target.detach().reshape(-1), hidden.reshape(-1)
            counted = hidden if ignore_index is None else hidden & (flat != ignore_index)
            ends = _ends(flat, counted, torch.iinfo(flat.dtype))
            seen = [scalar_of(value) for value in (hidden.sum(), counted.sum(), *ends, *(self._under_mask or ()))]
        numel = flat.numel()

        def one(values: Any) -> bool:
            alike = len(values) == 4 or values[4] == values[5]
            return values[0] > 0 and alike and (values[1] == 0 or values[2] == values[3])

        return {
            "padding_fraction": join_when_ready(seen, lambda v: float(v[0]) / numel if one(v) else None),
            "padding_counted": join_when_ready(seen, lambda v: float(v[1]) / float(v[0]) if one(v) else None),
        }


def _ends(values: Tensor, where: Tensor, limits: torch.iinfo) -> tuple[Tensor, Tensor]:
    """The smallest and the largest of some values: no boolean index, which would wait for a device."""
    return torch.where(where, values, limits.max).min(), torch.where(where, values, limits.min).max()
