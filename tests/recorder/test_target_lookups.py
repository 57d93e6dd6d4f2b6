"""Whether the targets of a loss are the tokens that went in, and whether gradients come back to their places."""

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

WORDS, LENGTH = 8, 6


class Reader(nn.Module):
    """One layer of attention over tokens; it can shift or mask behind the embedding."""

    def __init__(self, *, causal: bool = True, shifts: bool = False, fused: bool = True) -> None:
        super().__init__()
        self.causal, self.shifts, self.fused = causal, shifts, fused
        self.token, self.place, self.head = nn.Embedding(WORDS + 1, 8), nn.Embedding(LENGTH, 8), nn.Linear(8, WORDS)
        self.start = nn.Parameter(torch.zeros(1, 1, 8))

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        h = self.token(x)
        if self.shifts:
            h = torch.cat([self.start.expand(len(x), 1, 8), h[:, :-1]], 1)
        if hidden is not None:
            h = torch.where(hidden[:, :, None], self.start, h)
        h = h + self.place(torch.arange(x.shape[1]).expand(x.shape))
        if self.fused:
            h = F.scaled_dot_product_attention(h[:, None], h[:, None], h[:, None], is_causal=self.causal)[:, 0]
        else:
            scores = h @ h.transpose(1, 2)
            if self.causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            h = scores.softmax(-1) @ h
        return self.head(h)


def rows(folder: Path, model: Reader, targets: Any, **more: Any) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(folder / "run", model=model):
        for _ in range(3):
            x = torch.randint(WORDS, (8, LENGTH))
            F.cross_entropy(model(x, **more).flatten(0, 1), targets(x).reshape(-1)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return [row for *_, part in parts(folder / "run", "target_lookups") for row in pq.read_table(part).to_pylist()]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_targets_at_their_own_places_are_seen(causal: bool, fused: bool, tmp_path: Path) -> None:
    found = rows(tmp_path, Reader(causal=causal, fused=fused), lambda x: x)
    assert len(found) == 3
    for row in found:
        assert (row["targets"], row["counted"], row["equal"], row["varied"]) == (48, 48, 48, True)
        assert (row["ends_reached"], row["counted_reached"]) == (True, 1.0)
        assert (row["attentions"], row["causal"]) == (1, int(causal))


def test_no_gradient_comes_back_to_the_last_place_where_the_model_shifts(tmp_path: Path) -> None:
    found = rows(tmp_path, Reader(shifts=True), lambda x: x)
    assert [row["equal"] for row in found] == [48] * 3
    assert not any(row["ends_reached"] for row in found)


def test_targets_shifted_in_the_data_are_others(tmp_path: Path) -> None:
    found = rows(tmp_path, Reader(), lambda x: F.pad(x[:, 1:], (0, 1), value=-100))
    assert all(row["equal"] < row["counted"] == 40 for row in found)
    assert {row["ends_reached"] for row in found} == {None}


def test_what_is_masked_behind_the_embedding_gets_no_gradient(tmp_path: Path) -> None:
    hidden = torch.arange(8 * LENGTH).reshape(8, LENGTH) % 3 == 0
    found = rows(tmp_path, Reader(causal=False), lambda x: x.masked_fill(~hidden, -100), hidden=hidden)
    assert [(row["counted"], row["equal"], row["counted_reached"]) for row in found] == [(16, 16, 0.0)] * 3
    assert all(row["others_varied"] for row in found)


def of_the_next_token(folder: Path, model: nn.Module, *, shifted_logits: bool = False) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(folder / "run", model=model):
        for _ in range(3):
            tokens = torch.randint(WORDS, (8, LENGTH + (0 if shifted_logits else 1)))
            if shifted_logits:
                logits, targets = model(tokens)[:, :-1], tokens[:, 1:]
            else:
                logits, targets = model(tokens[:, :-1]), tokens[:, 1:]
            F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1)).backward()
            optimizer.step()
            optimizer.zero_grad()
    return [row for *_, part in parts(folder / "run", "target_lookups") for row in pq.read_table(part).to_pylist()]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("shifted_logits", [True, False])
def test_attention_that_shows_the_next_token_is_counted(shifted_logits: bool, fused: bool, tmp_path: Path) -> None:
    found = of_the_next_token(tmp_path, Reader(causal=False, fused=fused), shifted_logits=shifted_logits)
    places = 8 * (LENGTH - 1)
    assert [(row["next_places"], row["next_equal"], row["ahead"]) for row in found] == [(places, places, 1)] * 3


class FirstTokenHidden(Reader):
    """Its first place sees no key at all, which makes the whole row NaN; later places are hidden as well."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        h = self.token(x)
        unseen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        unseen[:, 0] = True
        scores = (h @ h.transpose(1, 2)).masked_fill(unseen, -torch.inf)
        return self.head(scores.softmax(-1) @ h)


def test_a_row_of_nan_is_not_taken_for_one_that_looks_ahead(tmp_path: Path) -> None:
    found = rows(tmp_path, FirstTokenHidden(), lambda x: x)
    assert [(row["attentions"], row["causal"]) for row in found] == [(1, 1)] * 3


class PaddedQueriesHidden(Reader):
    """Its last places are padding that sees no key: a large negative number everywhere, so equal weights for all."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__(fused=False)
        self.looks_back = causal

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        h = self.token(x)
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        unseen = later if self.looks_back else torch.zeros_like(later)
        unseen[-2:] = True
        return self.head((h @ h.transpose(1, 2) + torch.zeros(()).masked_fill(unseen, -1e9)).softmax(-1) @ h)


def test_padded_queries_that_see_nothing_are_not_taken_for_ones_that_look_ahead(tmp_path: Path) -> None:
    found = of_the_next_token(tmp_path / "causal", PaddedQueriesHidden(causal=True))
    assert [(row["next_places"], row["ahead"]) for row in found] == [(None, None)] * 3
    found = of_the_next_token(tmp_path / "not", PaddedQueriesHidden(causal=False))
    assert [row["ahead"] for row in found] == [1] * 3


@pytest.mark.parametrize("fused", [True, False])
def test_nothing_is_compared_where_attention_looks_back_only(fused: bool, tmp_path: Path) -> None:
    found = of_the_next_token(tmp_path, Reader(fused=fused))
    assert [(row["next_places"], row["ahead"]) for row in found] == [(None, None)] * 3


class ReadsRecurrently(Reader):
    """A recurrent decoder, whose state looks back only, with attention over as many features of something else."""

    def __init__(self, *, itself: bool = False, fused: bool = True) -> None:
        super().__init__(fused=fused)
        self.itself = itself
        self.recurrent, self.features = nn.GRU(8, 8, batch_first=True), nn.Parameter(torch.randn(1, LENGTH, 8))

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        h = self.recurrent(self.token(x))[0]
        seen = h if self.itself else self.features.expand(len(x), LENGTH, 8)
        if self.fused:
            return self.head(h + F.scaled_dot_product_attention(h[:, None], seen[:, None], seen[:, None])[:, 0])
        return self.head(h + (h @ seen.transpose(1, 2) / 8).softmax(-1) @ seen)


class ReadsAnother(Reader):
    """A decoder that looks back only beside another sequence, which it sees as a whole."""

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        source = self.token(x.flip(1))
        h = self.token(x)
        return self.head(F.scaled_dot_product_attention(h[:, None], source[:, None], source[:, None])[:, 0])


@pytest.mark.parametrize("model", [ReadsRecurrently(), ReadsRecurrently(fused=False), ReadsAnother()])
def test_attention_to_something_else_says_nothing(model: Reader, tmp_path: Path) -> None:
    found = of_the_next_token(tmp_path, model)
    assert {row["ahead"] for row in found if row["next_equal"] == row["next_places"]} == {0}


@pytest.mark.parametrize("fused", [True, False])
def test_attention_of_states_to_one_another_shows_what_comes(fused: bool, tmp_path: Path) -> None:
    model = ReadsRecurrently(itself=True, fused=fused)
    assert [row["ahead"] for row in of_the_next_token(tmp_path, model)] == [1] * 3


@pytest.mark.parametrize(("places", "told"), [(0, None), (1, 1), (2, 2), (3, None)])
def test_by_how_many_places_targets_are_later_is_told(places: int, told: int | None, tmp_path: Path) -> None:
    found = rows(tmp_path, Reader(), lambda x: F.pad(x[:, places:], (0, places), value=-100))
    assert [row["later"] for row in found] == [told] * 3


class LeavesOut(Reader):
    """Its first output is left out, or its last."""

    def __init__(self, part: slice) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        return super().forward(x)[:, self.part]


@pytest.mark.parametrize(("part", "told"), [(slice(1, None), 1), (slice(None, -1), 2)])
def test_outputs_that_are_left_out_at_the_beginning_move_the_others(part: slice, told: int, tmp_path: Path) -> None:
    found = rows(tmp_path, LeavesOut(part), lambda x: F.pad(x[:, 2:], (0, 1), value=-100))
    assert [row["later"] for row in found] == [told] * 3
