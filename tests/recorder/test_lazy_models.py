"""Models whose lazy parts get their shapes in a first call are recorded from their next call on, as they are then."""

import pytest
import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.randn(4, 1, 6, 6)
        optimizer.zero_grad()
        F.cross_entropy(model(x), (x.sum((1, 2, 3)) > 0).long()).backward()
        optimizer.step()


def lazy() -> nn.Module:
    return nn.Sequential(
        nn.LazyConv2d(4, 3),
        nn.LazyBatchNorm2d(affine=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(8),
        nn.Linear(8, 2),
    )


@pytest.mark.parametrize("first", ["with a graph", "without a graph", "after one that failed"])
def test_everything_of_a_lazy_model_is_recorded(tmp_path, first):
    model = lazy()
    with Recorder(tmp_path / "run"):
        if first == "after one that failed":
            with pytest.raises(RuntimeError):
                model(torch.zeros(2, 1, 1, 1))  # smaller than the kernel
            model = model if isinstance(model[0], nn.LazyConv2d) else lazy()
        with torch.set_grad_enabled(first != "without a graph"):
            model(torch.zeros(2, 1, 6, 6))
        train(model, 6)
    with Trace(tmp_path / "run") as trace:
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []
        inputs = trace.rows("SELECT step FROM batches WHERE role = 'input' ORDER BY step")
        assert {row["step"] for row in inputs} == set(range(6))
        modules = trace.rows("SELECT class_name, own_numel FROM modules WHERE module <> '' ORDER BY call_order")
        outputs = trace.rows("SELECT count(DISTINCT tensor_id) AS n FROM tensor_stats WHERE phase = 'forward'")
    assert [row["class_name"] for row in modules] == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear", "Linear"]
    assert [row["own_numel"] for row in modules] == [40, 0, 0, 0, 520, 18]
    assert outputs[0]["n"] >= 4
