"""Whether the token that ends each sequence is taken for padding: shown by the mask, of padding's value, and never a target.

A tokenizer whose padding is its end token, and labels that are ignored wherever that token stands, leave nothing that says where
a text ends. Only a loss of the next token is asked: each of its counted targets is the token one place later.
"""

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
