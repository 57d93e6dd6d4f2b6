"""Whether the token that ends each sequence is taken for padding is told from tokens, mask and targets."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

END, PAD, IGNORED = 9, 0, -100
TEXTS = [[1, 2, 3], [4, 5, 6, 7, 2], [3, 1]]


class Reader(nn.Module):
    """A model that is given tokens and a mask, as those of transformers are."""

    def __init__(self, padding_idx: int | None = None) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(10, 8, padding_idx=padding_idx), nn.Linear(8, 10)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(self.words(input_ids) * attention_mask[:, :, None])


def told(folder: Path, model: Reader, tokens: Tensor, mask: Tensor, labels: Tensor) -> tuple[Any, ...]:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(folder / "run", model=model):
        scores = model(input_ids=tokens, attention_mask=mask)[:, : labels.shape[1]]
        F.cross_entropy(scores.flatten(0, 1), labels.reshape(-1)).backward()
        optimizer.step()
    rows = [row for *_, part in parts(folder / "run", "batches") for row in pq.read_table(part).to_pylist()]
    (target,) = [row for row in rows if row["role"] == "target"]
    return target["padded_sequences"], target["ends_ignored"], target["padding_targets"]


def batch(texts: list[list[int]], pad: int, left: bool = False) -> tuple[Tensor, Tensor]:
    """Tokens and their mask."""
    length = max(map(len, texts))
    gap = [[pad] * (length - len(t)) for t in texts]
    tokens = [g + t if left else t + g for t, g in zip(texts, gap, strict=True)]
    shown = [
        [0] * len(g) + [1] * len(t) if left else [1] * len(t) + [0] * len(g) for t, g in zip(texts, gap, strict=True)
    ]
    return torch.tensor(tokens), torch.tensor(shown)


def later(labels: Tensor, *, kept: bool) -> Tensor:
    """Each place's target is the label of the next place; the last one is ignored or left out."""
    return F.pad(labels[:, 1:], (0, 1), value=IGNORED) if kept else labels[:, 1:]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("declared", [None, END])
def test_ends_that_are_ignored_like_padding_are_counted(
    declared: int | None, left: bool, kept: bool, tmp_path: Path
) -> None:
    tokens, mask = batch([[*t, END] for t in TEXTS], END, left)
    labels = tokens.masked_fill(tokens == END, IGNORED)
    assert told(tmp_path, Reader(declared), tokens, mask, later(labels, kept=kept)) == (2, 2, 0)


def test_what_comes_late_from_a_device_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstfault.recorder.tensors.device.LATE_DEVICES", {"cpu"})
    monkeypatch.setattr("firstfault.recorder.tensors.moments.LATE_DEVICES", {"cpu"})
    tokens, mask = batch([[*t, END] for t in TEXTS], END)
    labels = tokens.masked_fill(tokens == END, IGNORED)
    assert told(tmp_path / "ends", Reader(), tokens, mask, later(labels, kept=True)) == (2, 2, 0)
    assert told(tmp_path / "other", Reader(), tokens, mask, labels) == (None, None, None)


def test_ends_that_are_targets_are_counted_as_such(tmp_path: Path) -> None:
    tokens, mask = batch([[*t, END] for t in TEXTS], END)
    labels = tokens.masked_fill(mask == 0, IGNORED)
    assert told(tmp_path, Reader(), tokens, mask, later(labels, kept=True)) == (2, 0, 3)


def test_padding_of_a_token_of_its_own_takes_no_end(tmp_path: Path) -> None:
    tokens, mask = batch([[*t, END] for t in TEXTS], PAD)
    labels = tokens.masked_fill(tokens == PAD, IGNORED)
    assert told(tmp_path, Reader(), tokens, mask, later(labels, kept=True)) == (2, 0, 0)


def test_texts_without_an_end_have_none_to_ignore(tmp_path: Path) -> None:
    tokens, mask = batch([[END, *t] for t in TEXTS], END)
    labels = tokens.masked_fill(tokens == END, IGNORED)
    assert told(tmp_path, Reader(), tokens, mask, later(labels, kept=True)) == (2, 0, 0)


def test_a_prompt_in_front_is_no_other_ignored_token_and_one_in_between_is(tmp_path: Path) -> None:
    tokens, mask = batch([[8, 8, *t, END] for t in TEXTS], END)
    labels = tokens.masked_fill((tokens == END) | (tokens == 8), IGNORED)
    assert told(tmp_path / "in front", Reader(), tokens, mask, later(labels, kept=True)) == (2, 2, 0)
    labels = tokens.masked_fill((tokens == END) | (tokens == 2), IGNORED)
    assert told(tmp_path / "between", Reader(), tokens, mask, later(labels, kept=True)) == (None, None, None)


def test_targets_that_are_no_next_tokens_say_nothing(tmp_path: Path) -> None:
    tokens, mask = batch([[*t, END] for t in TEXTS], END)
    labels = tokens.masked_fill(tokens == END, IGNORED)
    assert told(tmp_path, Reader(), tokens, mask, labels) == (None, None, None)


def test_without_padding_nothing_is_taken_for_it(tmp_path: Path) -> None:
    tokens, mask = batch([[*t[:2], END] for t in TEXTS], END)
    labels = tokens.masked_fill(tokens == END, IGNORED)
    assert told(tmp_path, Reader(), tokens, mask, later(labels, kept=True)) == (None, None, None)
