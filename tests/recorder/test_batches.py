"""Loops that fetch a batch before they use the one ahead of it, as accelerate and transformers do."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def ahead(batches: Iterable[list[Tensor]]) -> Iterator[list[Tensor]]:
    iterator = iter(batches)
    held = next(iterator)
    for batch in iterator:
        yield held
        held = batch
    yield held


def data(samples: int) -> DataLoader[tuple[Tensor, ...]]:
    return DataLoader(TensorDataset(torch.randn(samples, 6), torch.randn(samples, 1)), 8, shuffle=True)


def test_all_that_an_evaluation_loads_is_evaluation_and_all_that_a_training_loads_is_not(tmp_path: Path) -> None:
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    training, held_out = data(40), data(24)
    with Recorder(tmp_path / "run", model=model):
        for _ in range(2):
            for x, y in ahead(training):
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
            for x, _ in ahead(held_out):  # grad mode is left only inside, as in Trainer.prediction_step
                with torch.no_grad():
                    model(x)

    with Trace(tmp_path / "run") as trace:
        found = trace.rows(
            "SELECT loader_id, list_sort(list(DISTINCT phase)) AS phases, count(DISTINCT batch_index) AS batches FROM batches"
            " WHERE loader_id IS NOT NULL GROUP BY loader_id ORDER BY loader_id"
        )
    assert [(row["phases"], row["batches"]) for row in found] == [(["data"], 5), (["eval"], 3)]


def test_a_batch_that_is_fetched_ahead_belongs_to_the_microbatch_that_uses_it(tmp_path: Path) -> None:
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        for i, (x, y) in enumerate(ahead(data(64))):
            nn.functional.mse_loss(model(x), y).backward()
            if i % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    with Trace(tmp_path / "run") as trace:
        found = trace.rows(
            "SELECT step, list_sort(list(DISTINCT microbatch)) AS used FROM batches WHERE loss_gradient IS NOT NULL"
            " GROUP BY step ORDER BY step"
        )
    assert [row["used"] for row in found] == [[0, 1, 2, 3]] * 2


def test_what_is_evaluated_before_the_first_step_is_no_training_batch(tmp_path: Path) -> None:
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    training, held_out = data(40), data(24)
    with Recorder(tmp_path / "run", model=model):
        for x, _ in held_out:  # as Lightning does, to see whether it runs
            with torch.no_grad():
                model(x * 1.0)
        for x, y in training:
            optimizer.zero_grad()
            (model(x * 1.0) - y).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        found = trace.rows(
            "SELECT loader_id, list_sort(list(DISTINCT phase)) AS phases FROM batches"
            " WHERE loader_id IS NOT NULL GROUP BY loader_id ORDER BY loader_id"
        )
    assert [row["phases"] for row in found] == [["eval"], ["data"]]


def test_the_capture_holds_the_batch_in_use_and_not_the_one_fetched_ahead(tmp_path: Path) -> None:
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    bad = TensorDataset(torch.cat([torch.full((8, 6), torch.nan), torch.randn(16, 6)]), torch.randn(24, 1))
    with Recorder(tmp_path / "run", model=model):
        for x, y in ahead(DataLoader(bad, 8)):  # the first batch is the bad one
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

    (saved,) = (tmp_path / "run").glob("captures/*/batch.pt")
    fields = torch.load(saved, weights_only=True)
    assert all(tensor.isnan().all() for tensor in fields.values() if tensor.shape == (8, 6))
    assert any(tensor.shape == (8, 6) for tensor in fields.values())
