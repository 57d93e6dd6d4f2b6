"""Which group holds a parameter, and which parameters no optimizer holds."""

import torch
from torch import nn


def test_parameters_have_their_group_and_what_no_optimizer_holds_has_none(train) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[1].parameters()}], 0.01)
    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer)
    groups = {row["tensor_name"]: row["group_id"] for row in done.rows("tensors") if row["kind"] == "parameter"}
    assert [groups[name] for name in ("0.weight", "1.weight", "2.weight")] == [0, 1, None]


def test_a_group_that_joins_late_is_seen_at_once(train) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model[0].parameters(), 0.01)

    def join(step: int) -> None:
        if step == 3:
            optimizer.add_param_group({"params": list(model[1].parameters())})

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer, before=join)
    found = [(row["step"], row["group_id"]) for row in done.rows("param_groups")]
    assert found == [(step, group) for step in range(6) for group in range(1 + (step >= 3))]
