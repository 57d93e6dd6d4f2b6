"""Seeds are events; the state of torch's generator stands in each step."""

import torch
from torch import nn


def test_a_seed_is_an_event_and_equal_states_are_equal_numbers(train) -> None:
    model = nn.Linear(4, 2)

    def seed(step: int) -> None:
        if step in {2, 4}:
            torch.manual_seed(7)

    done = train(model, lambda step: model(torch.randn(2, 4)).sum(), before=seed)

    assert [(e["step"], e["detail"]) for e in done.events("seeded")] == [(2, {"seed": 7}), (4, {"seed": 7})]
    states = [row["rng"] for row in done.rows("steps")]
    assert states[2:4] == states[4:6]
    assert len(set(states)) == 4
    (rank,) = done.rows("ranks")
    assert rank["deterministic"] is False
    assert rank["python_rng"] is not None
