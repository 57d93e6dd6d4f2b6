"""A run ends cleanly after the steps that the environment asks for."""

import pytest
import torch
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
