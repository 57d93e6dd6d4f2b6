"""Targets that a loss ignores by the number of a token, in the middle of their sequences."""

import pytest
import torch
from firstfault.recorder.tensors.device import Late
from firstfault.recorder.watches.sequence_ends import ignored_between

CODES = torch.tensor([[3, 0, 2, 0, 1, 5], [4, 2, 0, 2, 2, 0]])
PADDED = torch.tensor([[3, 4, 2, 0, 0, 0], [0, 0, 4, 2, 2, 1]])


@pytest.mark.parametrize(
    ("looked_up", "target", "ignored", "expected"),
    [
        (CODES[:, :-1], CODES, 0, 3),  # behind a start of the decoder's own
        (
            CODES[:, :-1],
            CODES[:, 1:],
            0,
            2,
        ),  # the next token: the first of the second row is the only one before its zero
        (CODES[:, :-1], CODES.reshape(-1), 0, 3),
        (PADDED[:, :-1], PADDED[:, 1:], 0, 0),  # padding at either end
        (CODES[:, :-1], CODES, -100, None),  # no token has this number
        (CODES.flip(1), CODES, 0, None),  # other tokens: a tagger's
        (CODES[:, :2], CODES, 0, None),
    ],
)
def test_only_ignored_tokens_between_counted_ones_of_a_next_token_loss_count(looked_up, target, ignored, expected):
    found = ignored_between([looked_up], target, ignored).get("ignored_between")
    assert not isinstance(found, Late)
    assert found == expected
