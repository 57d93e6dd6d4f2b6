"""What an evaluation before the first step puts out is compared with training."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def probes(run: Path, *names: str) -> list[dict]:
    found = [row for *_, part in parts(run, "probes") for row in pq.read_table(part).to_pylist()]
    return [row for row in found if row["probe"] in names]


def test_an_evaluation_before_training_is_compared_with_training(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    x = 100 * torch.randn(16, 4)
    with Recorder(tmp_path / "run", model=model) as recorder:
        model.eval()
        with torch.no_grad():
            evaluated = model(x)
        model.train()
        for _ in range(5):
            trained = model(x)
            trained.sum().backward()
            recorder.step()

    (early,) = probes(tmp_path / "run", "eval_output_before_training")
    training = probes(tmp_path / "run", "output_in_training")
    assert early["value"] == pytest.approx(evaluated.square().mean().sqrt().item(), rel=1e-5)
    assert [row["value"] for row in training] == pytest.approx([trained.square().mean().sqrt().item()] * 3, rel=1e-5)
    buffers = probes(tmp_path / "run", "buffer_set_by_training")
    assert sorted(row["scale"] for row in buffers) == [0, 1]


def test_a_training_without_an_early_evaluation_has_none_of_its_rows(tmp_path: Path) -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    with Recorder(tmp_path / "run", model=model) as recorder:
        for _ in range(2):
            model(torch.randn(16, 4)).sum().backward()
            recorder.step()
            model.eval()
            with torch.no_grad():
                model(torch.randn(16, 4))
            model.train()

    assert probes(tmp_path / "run", "eval_output_before_training", "output_in_training", "buffer_set_by_training") == []
