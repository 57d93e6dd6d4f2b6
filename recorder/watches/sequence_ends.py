"""Whether the token that ends each sequence is taken for padding: shown by the mask, of padding's value, and never a target.

A tokenizer whose padding is its end token, and labels that are ignored wherever that token stands, leave nothing that says where
a text ends. Only a loss of the next token is asked: each of its counted targets is the token one place later.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ..tensors.device import join_when_ready, scalar_of


def sequence_ends(tokens: Tensor, hidden: Tensor, target: Tensor, ignored: int) -> dict[str, Any]:
    """``padding_token``, ``padded_sequences``, ``ends_ignored`` and ``padding_targets`` of a loss, without waiting for a device.

    ``hidden``: where the mask is zero; what lies there has to be of one value. None where the loss is not that of the next token,
    or where other tokens behind the first target of a sequence are ignored too: those are left out on purpose."""
    rows, length = tokens.shape
    if length < 2 or target.device != tokens.device:
        return {}
    if target.numel() == rows * length:
        places = target.detach().reshape(rows, length)[:, :-1]
    elif target.numel() == rows * (length - 1):
        places = target.detach().reshape(rows, length - 1)
    else:
        return {}
    limits = torch.iinfo(tokens.dtype)
    with torch.no_grad():
        padding = torch.where(hidden, tokens, limits.max).min()
        highest = torch.where(hidden, tokens, limits.min).max()
        tokens, shown = tokens[:, 1:], ~hidden[:, 1:]
        counted = places != ignored
        is_padding = tokens == padding
        behind = counted.cumsum(1) > 0
        elsewhere = (counted & (places != tokens)).sum() + (~counted & shown & behind & ~is_padding).sum()
        last = (shown * torch.arange(1, length, device=tokens.device)).amax(1, keepdim=True)
        at = (last - 1).clamp(min=0)
        padded = hidden.any(1, keepdim=True) & (last > 0) & counted.any(1, keepdim=True)
        ended = padded & is_padding.gather(1, at) & ~counted.gather(1, at)
        values = [padding, highest, elsewhere, padded.sum(), ended.sum(), (counted & is_padding).sum()]
        known = [scalar_of(value) for value in values]

    def count(place: int) -> Any:
        return join_when_ready(known, lambda v: int(v[place]) if None not in v and v[0] == v[1] and v[2] == 0 else None)

    return {
        "padding_token": count(0),
        "padded_sequences": count(3),
        "ends_ignored": count(4),
        "padding_targets": count(5),
    }


def ignored_between(looked_up: Iterable[Tensor], target: Tensor, ignored: int | None) -> dict[str, Any]:
    """``ignored_between``: targets that a loss ignores between counted ones of their row, where the targets are what an embedding
    is given one place later, so that the ignored number is a token like any. None otherwise, or where the number is no token."""
    if ignored is None or ignored < 0 or target.is_floating_point():
        return {}
    for tokens in looked_up:
        rows = tokens.shape[0]
        if (
            target.device != tokens.device
            or target.numel() % rows
            or target.numel() // rows - tokens.shape[1] not in {0, 1}
        ):
            continue
        with torch.no_grad():
            goals = target.detach().reshape(rows, -1)
            # given with its first token, or behind a start of its own
            given = tokens[:, 1:] if goals.shape[1] == tokens.shape[1] else tokens
            apart = (given != goals[:, : given.shape[1]]).sum()
            counted = goals != ignored
            inside = ~counted & (counted.cumsum(1) > 0) & (counted.flip(1).cumsum(1).flip(1) > 0)
            known = [scalar_of(apart), scalar_of(inside.sum())]
        return {"ignored_between": join_when_ready(known, lambda v: int(v[1]) if v[0] == 0 else None)}
    return {}
