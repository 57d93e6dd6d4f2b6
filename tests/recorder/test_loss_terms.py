"""What becomes of the gradients of each addend of a loss."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

Step = Callable[["Pair", int], None]


class Pair:
    """A generator, a discriminator, and an optimizer for each."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.g, self.d = nn.Linear(4, 4), nn.Linear(4, 1)
        self.og, self.od = torch.optim.SGD(self.g.parameters(), 0.01), torch.optim.SGD(self.d.parameters(), 0.01)
        self.x = torch.randn(8, 4)

    def loss(self, *, cut: bool) -> Tensor:
        fake = self.g(self.x)
        return self.d(fake.detach() if cut else fake).square().mean() + 2.0 * (fake - self.x).abs().mean()

    def judge(self, *, to_none: bool = True) -> None:
        self.od.zero_grad(set_to_none=to_none)
        (self.d(self.x) - 1).square().mean().backward()
        self.od.step()


def used(folder: Path, step: Step, steps: int = 4) -> list[dict[str, Any]]:
    """Rows of the losses that were seen."""
    pair = Pair()
    with Recorder(folder / "run", model=pair.g):
        for i in range(steps):
            step(pair, i)
    return [row for *_, part in parts(folder / "run", "loss_terms") for row in pq.read_table(part).to_pylist()]


def cut_off(pair: Pair, _: int) -> None:
    pair.og.zero_grad()
    pair.loss(cut=True).backward()
    pair.og.step()
    pair.judge()


def cut_off_and_zeroed(pair: Pair, _: int) -> None:
    pair.og.zero_grad(set_to_none=False)
    pair.loss(cut=True).backward()
    pair.og.step()
    pair.judge(to_none=False)


@pytest.mark.parametrize("step", [cut_off, cut_off_and_zeroed])
def test_a_term_is_lost_whose_gradients_are_cleared_before_their_optimizer_steps(step: Step, tmp_path: Path) -> None:
    rows = used(tmp_path, step)
    rows = [
        row for row in rows if row["step"] > 0
    ]  # at first the optimizers are not known: they were made before the recorder
    assert {(row["step"], row["term"]): row["used"] for row in rows} == {
        (i, term): term == 1 for i in range(1, 4) for term in range(2)
    }
    lost, kept = rows[:2]
    assert (lost["parameters"], len(lost["optimizers"]), lost["unheld"]) == (2, 1, 0)
    assert lost["module_id"] is not None
    assert lost["optimizers"] != kept["optimizers"] == lost["stepped"]


def reaches_both(pair: Pair, _: int) -> None:
    pair.og.zero_grad()
    pair.loss(cut=False).backward()
    pair.og.step()
    pair.judge()


def both_step(pair: Pair, _: int) -> None:
    pair.og.zero_grad()
    pair.od.zero_grad()
    pair.loss(cut=True).backward()
    pair.og.step()
    pair.od.step()


def accumulated(pair: Pair, i: int) -> None:
    pair.loss(cut=True).backward()
    if i % 2:
        for optimizer in (pair.og, pair.od):
            optimizer.step()
            optimizer.zero_grad()


def kept_until_their_turn(pair: Pair, i: int) -> None:
    pair.loss(cut=True).backward()
    optimizer = (pair.og, pair.od)[i % 2]
    optimizer.step()
    optimizer.zero_grad()


def frozen(pair: Pair, i: int) -> None:
    pair.d.requires_grad_(False)
    pair.og.zero_grad()
    pair.loss(cut=True).backward()
    pair.og.step()


def a_term_that_is_flat(pair: Pair, _: int) -> None:
    for optimizer in (pair.og, pair.od):
        optimizer.zero_grad()
    (pair.g(pair.x).square().mean() + torch.relu(pair.d(pair.x) - 100).mean()).backward()
    pair.og.step()
    pair.od.step()


def nobody_steps(pair: Pair, _: int) -> None:
    pair.loss(cut=True).backward()
    for optimizer in (pair.og, pair.od):
        optimizer.zero_grad()
    pair.loss(cut=False).backward()
    pair.og.step()
    pair.og.zero_grad()


def updated_by_hand(pair: Pair, _: int) -> None:
    pair.og.zero_grad()
    pair.loss(cut=True).backward()
    pair.og.step()
    with torch.no_grad():
        for p in pair.d.parameters():
            if p.grad is not None:
                p.sub_(p.grad, alpha=0.01)
            p.grad = None


@pytest.mark.parametrize(
    "step",
    [
        reaches_both,
        both_step,
        accumulated,
        kept_until_their_turn,
        frozen,
        a_term_that_is_flat,
        nobody_steps,
    ],
)
def test_no_term_is_lost_whose_gradients_are_used_or_were_never_there(step: Step, tmp_path: Path) -> None:
    assert not [row for row in used(tmp_path, step, 6) if row["used"] is False]


def test_weights_that_the_script_updates_by_itself_are_not_lost(tmp_path: Path) -> None:
    def step(pair: Pair, i: int) -> None:
        pair.od.param_groups[0]["params"] = []
        updated_by_hand(pair, i)

    rows = used(tmp_path, step, 8)
    assert rows
    assert not [row for row in rows if row["used"] is False]


def test_weights_of_nobody_are_said_to_be_so(tmp_path: Path) -> None:
    def step(pair: Pair, _: int) -> None:
        pair.od.param_groups[0]["params"] = []
        pair.og.zero_grad()
        pair.loss(cut=True).backward()
        pair.og.step()

    rows = used(tmp_path, step, 8)
    assert {(row["term"], row["used"], row["unheld"]) for row in rows} == {(0, False, 2), (1, True, 0)}


def test_a_function_of_the_script_s_own_hides_what_a_term_reaches(tmp_path: Path) -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * 2

    def step(pair: Pair, _: int) -> None:
        pair.og.zero_grad()
        fake = pair.g(pair.x)
        (Own.apply(pair.d(fake.detach())).mean() + fake.abs().mean()).backward()
        pair.og.step()
        pair.judge()

    assert {(row["term"], row["used"]) for row in used(tmp_path, step)} == {(0, None), (1, True)}


def test_sparse_gradients_are_used_as_others_are(tmp_path: Path) -> None:
    torch.manual_seed(0)
    table, head = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 1)
    both = nn.Sequential(table, head)
    rows, weights = torch.optim.SparseAdam(table.parameters(), 0.01), torch.optim.SGD(head.parameters(), 0.01)
    with Recorder(tmp_path / "run", model=both):
        for _ in range(4):
            rows.zero_grad()
            weights.zero_grad()
            found = table(torch.tensor([1, 2, 2]))
            (head(found).square().mean() + 0.5 * (found - 1).abs().mean()).backward()
            rows.step()
            weights.step()

    kept = [row for *_, part in parts(tmp_path / "run", "loss_terms") for row in pq.read_table(part).to_pylist()]

    assert kept
    assert all(row["used"] for row in kept)
    assert not [
        e
        for *_, part in parts(tmp_path / "run", "events")
        for e in pq.read_table(part).to_pylist()
        if "fault" in e["event"]
    ]
