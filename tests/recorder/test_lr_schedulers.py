"""When the script steps a scheduler, and what it sets."""

import json
import warnings

import torch
from torch import nn


def test_each_step_of_a_scheduler_is_counted_and_its_settings_are_known(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = []

    def make(step: int) -> None:
        if step == 0:
            made.append(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5))

    done = train(
        model,
        lambda step: model(torch.randn(3, 4)).square().mean(),
        optimizer=optimizer,
        before=make,
        after=lambda step: made[0].step() if step % 2 else None,
    )
    assert [row["lr"] for row in done.rows("param_groups")] == [0.1, 0.1, 0.1, 0.1, 0.05, 0.05]
    found = done.rows("schedulers")
    # the last row is written when the recording ends
    assert [row["total_steps"] for row in found] == [0, 0, 1, 1, 2, 2, 3]
    assert {row["scheduler"] for row in found} == {"StepLR"}
    assert json.loads(found[-1]["settings"])["step_size"] == 2
    assert not any(row["before_optimizer"] for row in found)


def test_one_that_steps_before_the_optimizer_is_marked(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = []

    def first(step: int) -> None:
        if step == 0:
            made.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.9**n))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of it
            made[0].step()

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer, before=first)
    assert [row["before_optimizer"] for row in done.rows("schedulers")] == [True] * 7
