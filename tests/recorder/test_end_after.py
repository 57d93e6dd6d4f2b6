"""A run ends cleanly after the steps that the environment asks for."""

import pytest
import torch
from firstfault.recorder import Recorder
from torch import nn


def test_the_forward_that_is_one_too_many_ends_the_script(train, monkeypatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_END_AFTER", "3,60")
    model = nn.Linear(4, 2)
    made = []
    with pytest.raises(SystemExit) as ended:
        train(model, lambda step: model(torch.ones(2, 4)).sum(), after=made.append)
    assert ended.value.code == 0
    assert made == [0, 1, 2]


def test_without_that_the_script_goes_on_to_its_end(train, monkeypatch) -> None:
    monkeypatch.delenv("FIRSTFAULT_END_AFTER", raising=False)
    model = nn.Linear(4, 2)
    done = train(model, lambda step: model(torch.ones(2, 4)).sum())
    assert done.events("ended-early") == []
    assert len(done.rows("steps")) == 6


@pytest.mark.parametrize("clears", [True, False])
def test_a_script_that_never_steps_its_optimizer_is_ended_too(tmp_path, monkeypatch, clears) -> None:
    monkeypatch.setenv("FIRSTFAULT_END_AFTER", "3,60" if clears else "3,0.5")
    made = []

    def training() -> None:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(10_000):
            loss = model(torch.ones(2, 4)).sum()
            if clears:
                optimizer.zero_grad()  # when the forward began, nobody knew that the last iteration was over
            loss.backward()
            made.append(step)

    with Recorder(tmp_path / "run"), pytest.raises(SystemExit):
        training()
    assert len(made) < (6 if clears else 10_000)


def test_a_script_that_never_calls_its_module_is_ended_too(train, monkeypatch) -> None:
    monkeypatch.setenv("FIRSTFAULT_END_AFTER", "3,60")
    model = nn.Linear(4, 2)
    made = []
    with pytest.raises(SystemExit) as ended:
        train(model, lambda step: (torch.ones(2, 4) @ model.weight.T + model.bias).sum(), after=made.append, steps=50)
    assert ended.value.code == 0
    assert 3 <= len(made) <= 4
