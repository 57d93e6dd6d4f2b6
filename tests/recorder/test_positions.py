"""Positional encodings, along the places of a sample or along the samples of a batch."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


class Positions(nn.Module):
    def __init__(self, *, axis: int, drops: bool = True) -> None:
        super().__init__()
        table = torch.randn(100, 1, 8)
        self.register_buffer("pe", table.transpose(0, 1) if axis == 1 else table)
        self.axis = axis
        self.dropout = nn.Dropout(0.1) if drops else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.pe[:, : x.size(1)] if self.axis == 1 else self.pe[: x.size(0)]
        x = 2.0 * x + rows
        return x if self.dropout is None else self.dropout(x)


class Net(nn.Module):
    def __init__(self, positions: nn.Module, *, sequence_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.positions = positions
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=not sequence_first)
        self.head = nn.Linear(8, 3)
        self.sequence_first = sequence_first

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        if self.sequence_first:
            return self.head(self.encoder(self.positions(x.transpose(0, 1))).mean(0))
        return self.head(self.encoder(self.positions(x)).mean(1))


@pytest.mark.parametrize("loader", [True, False], ids=["loader", "no_loader"])
@pytest.mark.parametrize(
    ("net", "told"),
    [
        (lambda: Net(Positions(axis=0), sequence_first=False), True),
        (lambda: Net(Positions(axis=0, drops=False), sequence_first=False), True),
        (lambda: Net(Positions(axis=1), sequence_first=False), False),
        (lambda: Net(Positions(axis=0), sequence_first=True), False),
    ],
    ids=["along_the_samples", "without_dropout", "along_the_places", "sequence_first"],
)
def test_an_encoding_that_goes_along_the_samples_is_told(
    net: Callable[[], Net], told: bool, loader: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = net()
    tokens, classes = torch.randint(0, 10, (64, 6)), torch.randint(0, 3, (64,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = DataLoader(TensorDataset(tokens, classes), 16, shuffle=True) if loader else None
    with Recorder(tmp_path / "run", model=model):
        for x, y in batches or zip(tokens.split(16), classes.split(16), strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    rows = [r for part in parts(tmp_path / "run", "events") for r in pq.read_table(part.path).to_pylist()]
    found = [json.loads(r["detail"]) for r in rows if r["event"] == "axis-of-samples"]
    assert [(d["operator"], d["samples"], d["other"]) for d in found] == ([("Positions", 16, 6)] if told else [])
