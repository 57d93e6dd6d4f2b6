"""What fills rows of tokens, but for the padding at their ends."""

import pytest
import torch
from firstfault.recorder.tensors.frequent_values import frequent_values


@pytest.mark.parametrize(
    ("rows", "values", "shares"),
    [
        ([[5, 6, 5, 0, 0], [7, 5, 0, 0, 0]], [5, 6, 7], [3 / 5, 1 / 5, 1 / 5]),
        ([[9, 9, 5, 1], [9, 9, 9, 2]], [1, 2, 5], [1 / 3, 1 / 3, 1 / 3]),
        ([[1, 1, 2, 1], [2, 1, 2, 1]], [1, 2], [3 / 6, 3 / 6]),
        ([[1, 2, 3, 4], [1, 2, 5, 6]], [1, 2, 3, 4], [2 / 8, 2 / 8, 1 / 8, 1 / 8]),
    ],
    ids=["behind", "before", "an_end_is_no_run", "four_at_most"],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_the_most_frequent_values_are_listed_without_padding(rows, values, shares, dtype):
    assert frequent_values(torch.tensor(rows, dtype=dtype)) == {
        "frequent_values": values,
        "frequent_shares": pytest.approx(shares),
    }


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(4, 6, dtype=torch.int64),
        torch.zeros(0, 6, dtype=torch.int64),
        torch.ones(4, 1, dtype=torch.int64),
        torch.ones(4, dtype=torch.int64),
        torch.randn(4, 6),
        torch.ones(4, 6, dtype=torch.uint8),
    ],
)
def test_where_all_is_padding_and_where_there_are_no_tokens_nothing_is_said(tensor):
    assert frequent_values(tensor) == {}
