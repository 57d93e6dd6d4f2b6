"""A block that is checkpointed on inputs without gradient is noted."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def probes(run: Path, *names: str) -> list[dict]:
    found = [row for *_, part in parts(run, "probes") for row in pq.read_table(part).to_pylist()]
    return [row for row in found if row["probe"] in names]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_a_block_is_noted_that_is_checkpointed_on_inputs_without_gradient(needs_gradient: bool, tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            kept = checkpoint(lambda x: self.block(x).relu(), x, use_reentrant=True)
            assert isinstance(kept, Tensor)
            return self.head(kept)

    model = Model()
    with Recorder(tmp_path / "run", model=model) as recorder:
        model(torch.randn(3, 4, requires_grad=needs_gradient)).sum().backward()
        recorder.step()

    found = probes(tmp_path / "run", "checkpointed_without_graph")
    modules = [row for *_, part in parts(tmp_path / "run", "modules") for row in pq.read_table(part).to_pylist()]
    names = {row["module_id"]: row["module"] for row in modules}
    assert [names[row["module_id"]] for row in found] == ([] if needs_gradient else ["block"])
    assert (model.block.weight.grad is not None) == needs_gradient
