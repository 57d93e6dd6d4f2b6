"""Tokens with the number of padding inside a text, between two others."""

import pytest
import torch
from firstfault.recorder.probes.padding_inside import LookedUp, Lookups, filled_otherwise, padding_inside
from torch import nn


def rows(*inside: int, number: int = 0) -> torch.Tensor:
    """Eight rows of twelve tokens, padded behind; a row for each place that holds the number of padding inside."""
    tokens = torch.arange(1, 97).reshape(8, 12) % 30 + 1
    tokens[:, -2:] = number
    for row, place in enumerate(inside):
        tokens[row, place] = number
    return tokens


@pytest.mark.parametrize(
    ("tokens", "padding", "named", "code"),
    [
        (rows(3, 5, 7), 0, [], "padding-inside"),
        (rows(3, 5, 7), None, [0], "named-padding-inside"),
        (rows(3, 5, 7, number=40), None, [40], "named-padding-inside"),
        (rows(), 0, [], "padding-outside"),
        (rows(5, 5, 5, 5), 0, [], "padding-outside"),  # a field of a fixed width, padded, before another one
        (rows(3, 5), 0, [], "padding-outside"),
        (rows(3, 5, 7), None, [], None),
        (rows(3, 5, 7)[:, :-2], None, [0], None),  # no row is padded with what is called padding
        (rows(3, 5, 7) % 2, 0, [], None),  # flags
    ],
)
def test_padding_between_two_tokens_is_told(tokens, padding, named, code):
    found = padding_inside([LookedUp("Embedding", padding, tokens)], named)

    assert (found and found.code) == code
    if code and found.outcome == "doubtful":
        assert (found.values["rows"], found.values["row"], found.values["place"]) == (3, 0, 3)


def test_the_first_tokens_of_each_embedding_are_kept():
    lookups, embedding, other = Lookups(), nn.Embedding(50, 4, padding_idx=0), nn.Linear(4, 4)
    for module, given in ((embedding, rows(3)), (embedding, rows()), (other, rows())):
        lookups.note(module, (given,))

    (kept,) = lookups.found
    assert kept.padding == 0
    assert torch.equal(kept.tokens, rows(3))


def filled(number: int, *lengths: int) -> torch.Tensor:
    """Eight rows of twelve tokens; the first ones end with so many of one number."""
    tokens = torch.arange(96).reshape(8, 12) % 31 + 5
    for row, length in enumerate(lengths):
        tokens[row, 12 - length :] = number
    return tokens


@pytest.mark.parametrize(
    ("tokens", "padding", "named", "code"),
    [
        (filled(2, 3, 5, 6, 2), 1, [], "filled-otherwise-end"),
        (filled(2, 3, 5, 6, 2), None, [1], "filled-otherwise-end"),
        (filled(2, 3, 5, 6, 2).flip(1), None, [1], "filled-otherwise-begin"),
        (filled(1, 3, 5, 6, 2), 1, [], None),
        (filled(2, 3, 5, 6, 2), None, [], None),  # what is padding is not known
        (filled(2, 3, 5, 6, 2), None, [0, 1], None),
        (filled(2, 4, 4, 4, 4), 1, [], None),  # a field of one width
        (filled(2, 3, 5, 6), 1, [], None),  # blanks stand at ends of rows too,
    ],
)
def test_rows_that_are_filled_up_with_another_number_are_told(tokens, padding, named, code):
    found = filled_otherwise([LookedUp("Embedding", padding, tokens)], named)

    assert (found and found.code) == code
    if found:
        assert (found.values["filler"], found.values["number"], found.values["rows"]) == (2, 1, 4)
