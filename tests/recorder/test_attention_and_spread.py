"""What probes of attention and of outputs measure is what torch measures."""

import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def probes(run: Path, *names: str) -> list[dict]:
    found = [row for *_, part in parts(run, "probes") for row in pq.read_table(part).to_pylist()]
    return [row for row in found if row["probe"] in names]


class Attention(nn.Module):
    """One attention with its weights written out or left to torch."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.weights = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x)[:, None] for f in (self.q, self.k, self.v))
        hidden = torch.ones(5, 5).triu(1).bool()
        self.weights = ((q @ k.transpose(-1, -2)) / math.sqrt(8)).masked_fill(hidden, -math.inf).softmax(-1)
        if self.kind == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.kind == "masked":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)
        return self.weights @ v


@pytest.mark.parametrize("kind", ["causal", "masked", "by hand"])
def test_the_entropy_of_attention_is_that_of_its_weights(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attention(kind)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(2, 5, 8)
    with Recorder(tmp_path / "run", model=model):
        model(x).square().mean().backward()
        weights = model.weights.detach()
        optimizer.step()

    (row,) = probes(tmp_path / "run", "attention_entropy")

    rows = [2, 3, 4] if kind == "by hand" else [2, 4]
    assert row["scale"] == 5
    assert row["value"] == pytest.approx(torch.special.entr(weights[:, :, rows]).sum(-1).mean().item(), rel=1e-4)
    (sure,) = probes(tmp_path / "run", "attention_sure")
    assert sure["value"] == 0


@pytest.mark.parametrize(("lengths", "least", "most"), [([6, 4, 3, 2], 0.0, 0.0), ([6, 4, 3, 5], 0.3, 0.7)])
def test_padding_is_looked_for_in_the_last_sample_too(
    lengths: list[int], least: float, most: float, tmp_path: Path
) -> None:
    """Batches that are sorted by length have none in their first samples."""
    torch.manual_seed(0)
    embedding, attention = nn.Embedding(9, 8, padding_idx=0), nn.MultiheadAttention(8, 2, batch_first=True)
    model = nn.ModuleDict({"embedding": embedding, "attention": attention})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    places = torch.arange(6)
    tokens = torch.where(places < torch.tensor([[6], [4], [3], [2]]), places + 1, 0)
    hidden = places >= torch.tensor(lengths)[:, None]
    with Recorder(tmp_path / "run", model=model):
        x = embedding(tokens)
        attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0].square().mean().backward()
        optimizer.step()

    (row,) = probes(tmp_path / "run", "attention_on_padding")

    assert least <= row["value"] <= most
    assert row["scale"] == pytest.approx(4 / 6)


def test_the_last_softmax_of_a_classifier_is_no_attention(tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    with Recorder(tmp_path / "run", model=model) as recorder:
        F.nll_loss(model(torch.randn(3, 6, 8)).softmax(-1).log().flatten(0, 1), torch.randint(4, (18,))).backward()
        recorder.step()

    assert probes(tmp_path / "run", "attention_entropy") == []


def test_the_spread_of_outputs_is_that_over_the_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 6)
    x = torch.randn(20, 8)
    with Recorder(tmp_path / "run", model=model) as recorder:
        out = model(x)
        out.sum().backward()
        recorder.step()

    (std,) = probes(tmp_path / "run", "batch_std")
    (direction,) = probes(tmp_path / "run", "direction_std")

    assert std["value"] == pytest.approx(out.var(0, correction=0).mean().sqrt().item(), rel=1e-5)
    assert std["scale"] == pytest.approx(out.square().mean().sqrt().item(), rel=1e-5)
    unit = F.normalize(out, dim=1)
    assert direction["value"] == pytest.approx(unit.var(0, correction=0).sum().sqrt().item(), rel=1e-4)
