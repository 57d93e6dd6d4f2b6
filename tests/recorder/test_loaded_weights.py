"""What load_state_dict did: which keys met, which values changed, and what was the module's own storage."""

import copy

import pytest
import torch
from torch import nn


def test_a_state_dict_that_was_kept_restores_nothing_and_a_copy_does(train) -> None:
    model = nn.Linear(4, 2)
    kept = {}

    def keep_and_load(step: int) -> None:
        if step == 1:
            kept["own"] = model.state_dict()
            kept["copy"] = copy.deepcopy(model.state_dict())
        elif step == 3:
            model.load_state_dict(kept["own"])
        elif step == 4:
            model.load_state_dict(kept["copy"])
        elif step == 5:
            model.load_state_dict({"weight": torch.zeros(2, 4), "gain": torch.ones(1)}, strict=False)

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), after=keep_and_load)

    loads = [row for row in done.rows("checkpoints") if row["action"] == "weights"]
    found = [tuple(row[c] for c in ("matched", "missing", "unexpected", "changed", "shared")) for row in loads]
    assert found == [(2, 0, 0, 0, 2), (2, 0, 0, 2, 0), (1, 1, 1, 1, 0)]


def _loads(done) -> list[tuple[int, int, str | None]]:
    return [
        (row["matrices"], row["overwritten"], row["overwritten_weight"])
        for row in done.rows("checkpoints")
        if row["action"] == "weights"
    ]


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4, bias=False))


@pytest.mark.parametrize(
    ("after_loading", "overwritten"),
    [
        (
            lambda m: m.apply(lambda part: isinstance(part, nn.Linear) and nn.init.xavier_normal_(part.weight)),
            (3, 3, "0.weight"),
        ),
        (lambda m: nn.init.normal_(m[4].weight), (3, 1, "4.weight")),
        (lambda m: [p.mul_(0.1).add_(1e-3) for p in m.parameters()], (3, 0, None)),
        (lambda m: nn.init.zeros_(m[0].bias), (3, 0, None)),
        (lambda m: m.half().float(), (3, 0, None)),
    ],
    ids=["initialised", "head", "scaled", "bias", "rounded"],
)
def test_loaded_weights_that_are_written_over_before_they_are_used_are_counted(
    train, after_loading, overwritten
) -> None:
    model = _net()

    def load(step: int) -> None:
        if step == 1:
            model.load_state_dict(_net().state_dict())
            with torch.no_grad():
                after_loading(model)

    done = train(model, lambda step: model(torch.randn(3, 16)).square().mean(), after=load)
    assert _loads(done) == [overwritten]


def test_a_state_that_is_loaded_over_another_one_is_no_loss(train) -> None:
    model = _net()

    def load(step: int) -> None:
        if step == 1:
            model[0].load_state_dict(_net()[0].state_dict())
            model.load_state_dict(_net().state_dict())

    done = train(model, lambda step: model(torch.randn(3, 16)).square().mean(), after=load)
    assert _loads(done) == [(None, None, None), (3, 0, None)]
