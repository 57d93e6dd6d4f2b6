"""Whether a loss counts the targets of padding is told from the tokens and the targets themselves."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.recorder.session.session import Session
from firstfault.recorder.watches.padding import TokenPadding
from firstfault.schemas.files.layout import parts
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

TOKENS = torch.tensor([[3, 4, 5, 0], [2, 1, 0, 0]])


@pytest.mark.parametrize(
    ("declared", "targets", "ignore_index", "fraction", "counted"),
    [
        (0, TOKENS, -100, 3 / 8, 1.0),
        (0, TOKENS, 0, 1 / 8, 0.0),
        (0, TOKENS.masked_fill(TOKENS == 0, -100), -100, 1 / 8, 0.0),
        (0, TOKENS.T, -100, None, None),  # ordered otherwise: padding has targets of several values
        (None, TOKENS, -100, None, None),  # 0 may be a word
    ],
)
def test_targets_of_padding_are_counted(
    declared: int | None, targets: torch.Tensor, ignore_index: int, fraction: float, counted: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(6, 8, padding_idx=declared), nn.Linear(8, 6))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        scores = model(TOKENS).flatten(0, 1)
        F.cross_entropy(scores, targets.reshape(-1), ignore_index=ignore_index).backward()
        optimizer.step()

    rows = [row for *_, part in parts(tmp_path / "run", "batches") for row in pq.read_table(part).to_pylist()]
    (target,) = [row for row in rows if row["role"] == "target"]

    assert (target["padding_fraction"], target["padding_counted"]) == (fraction, counted)


class Masked(nn.Module):
    """A model that is given tokens and a mask, as those of transformers are."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(6, 8)
        self.head = nn.Linear(8, 6)

    def forward(self, tokens: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(tokens) * attention_mask[:, :, None])


MASK = (TOKENS != 0).long()


@pytest.mark.parametrize(
    ("mask", "targets", "fraction", "counted"),
    [
        (MASK, TOKENS, 3 / 8, 1.0),
        (MASK, TOKENS.masked_fill(TOKENS == 0, -100), 1 / 8, 0.0),
        (MASK, F.pad(TOKENS, (0, 1), value=-100)[:, 1:], 1 / 8, 1.0),  # shifted in place: the last ones are ignored
        (MASK, TOKENS[:, 1:], 3 / 6, 1.0),  # shifted: one target less than there are tokens
        (1 - MASK, TOKENS, None, None),  # turned round: what it leaves out are words
        (MASK * 0 + 1, TOKENS, None, None),
    ],
)
def test_targets_of_tokens_that_a_mask_hides_are_counted(
    mask: torch.Tensor, targets: torch.Tensor, fraction: float, counted: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        scores = model(TOKENS, attention_mask=mask)[:, : targets.shape[1]].flatten(0, 1)
        F.cross_entropy(scores, targets.reshape(-1)).backward()
        optimizer.step()

    rows = [row for *_, part in parts(tmp_path / "run", "batches") for row in pq.read_table(part).to_pylist()]
    (target,) = [row for row in rows if row["role"] == "target"]

    assert (target["padding_fraction"], target["padding_counted"]) == (fraction, counted)


def test_tokens_of_an_earlier_step_that_ended_without_a_row_are_not_taken_for_those_of_this_one() -> None:
    """An evaluation between two steps can leave a step without a row, at whose end they would be forgotten."""
    session = SimpleNamespace(position=SimpleNamespace(step=104))
    padding = TokenPadding(cast("Session", session), dict)
    words = nn.Embedding(6, 4)
    padding.note(words, TOKENS)
    assert padding.tokens is not None

    session.position.step = 112
    assert padding.tokens is None
    padding.note(words, TOKENS.roll(1, 0))
    assert torch.equal(padding.tokens, TOKENS.roll(1, 0) == 0)
