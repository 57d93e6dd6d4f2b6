"""What load_state_dict did: which keys met, which values changed, and what was the module's own storage."""

import copy

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
