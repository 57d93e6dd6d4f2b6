"""Hooks are counted that the script puts on modules, and none of the recorder's own, which come and go."""

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randint(9, (4, 5))).square().mean().backward()
        optimizer.step()


def counted(run) -> list[tuple[int, float]]:
    with Trace(run) as trace:
        return trace.sql(
            "SELECT step, value FROM probes WHERE probe = 'hooks' AND module_id IS NULL ORDER BY step"
        ).rows()


def test_a_second_model_brings_hooks_of_the_recorder_and_none_is_counted(tmp_path, monkeypatch):
    def two() -> None:
        torch.manual_seed(0)
        for _ in range(2):
            train(nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)), 30)

    with Recorder(tmp_path / "run"):
        two()
    monkeypatch.setattr("firstfault.recorder.watches.hook_counts._OURS", "nobody's.")
    with Recorder(tmp_path / "with_ours"):
        two()
    assert counted(tmp_path / "with_ours")  # else this shows nothing
    assert counted(tmp_path / "run") == []


def test_a_hook_of_the_scripts_on_all_modules_is_counted(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 2))
    with Recorder(tmp_path / "run"):
        train(model, 5)
        handle = register_module_forward_hook(lambda *_: None)
        train(model, 5)
        handle.remove()
    assert [value for _, value in counted(tmp_path / "run")] == [1.0]
