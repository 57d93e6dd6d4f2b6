"""Cells that a loop gives the same state again and again."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

STYLES = ("carried", "kept", "learnt beginning of whole sequences", "zeros", "three calls")


class Reader(nn.Module):
    def __init__(self, style: str) -> None:
        super().__init__()
        self.style = style
        self.begin = nn.Linear(4, 8)
        self.cell = nn.GRUCell(4, 8)
        self.sequence = nn.GRU(4, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        first = self.begin(x[:, 0])
        if self.style.startswith("learnt"):
            return sum(self.sequence(x + i, first[None])[0].mean() for i in range(6))  # pyright: ignore[reportReturnType]
        state, total = first, x.new_zeros(())
        for place in x.unbind(1)[: 3 if self.style == "three calls" else None]:
            before = {"carried": state, "zeros": torch.zeros(len(x), 8)}.get(self.style, first)
            state = self.cell(place, before)
            total = total + state.mean()
        return total


@pytest.mark.parametrize("style", STYLES)
def test_only_a_computed_state_that_is_given_to_every_call_is_told(style: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Reader(style)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(tmp_path / "run", model=model):
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(3, 6, 4)).backward()
            optimizer.step()

    rows = [r for part in parts(tmp_path / "run", "events") for r in pq.read_table(part.path).to_pylist()]
    told = [r for r in rows if r["event"] == "state-not-carried"]
    assert [r["detail"] for r in told] == (['{"calls":6}'] if style == "kept" else [])


class Remembering(nn.Module):
    def __init__(self, style: str) -> None:
        super().__init__()
        self.style = style
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 1)
        self.state: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        given = {"random": (torch.randn(1, len(x), 8), torch.randn(1, len(x), 8)), "none": None}.get(
            self.style, self.state
        )
        out, (h, c) = self.rnn(x, given)
        self.state = (h.detach().clone(), c.detach()) if self.style == "cloned" else (h.detach(), c.detach())
        if self.style == "zeroed":
            self.state = torch.zeros_like(h), torch.zeros_like(c)
        return self.head(out[:, -1]).square().mean()


@pytest.mark.parametrize("style", ["kept", "cloned", "zeroed", "random", "none"])
def test_a_state_that_the_next_batch_begins_with_is_told(style: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Remembering(style)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(tmp_path / "run", model=model):
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(3, 6, 4)).backward()
            optimizer.step()

    rows = [r for part in parts(tmp_path / "run", "events") for r in pq.read_table(part.path).to_pylist()]
    told = [(r["step"], r["detail"]) for r in rows if r["event"] == "state-carried-over"]
    assert told == ([(3, '{"batches":3}')] if style in {"kept", "cloned"} else [])
