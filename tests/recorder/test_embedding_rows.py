"""Rows of an embedding that were looked up are counted, each once."""

import torch
from torch import nn


def test_rows_that_were_ever_looked_up_are_counted_once(train) -> None:
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2))
    done = train(model, lambda step: model(torch.tensor([[0, step], [1, 1]])).square().mean(), steps=5)

    found = done.rows("embeddings")
    assert found
    for row in found:
        assert (row["rows"], row["rows_used"], row["lookups"]) == (10, max(2, row["step"] + 1), 4 * (row["step"] + 1))
