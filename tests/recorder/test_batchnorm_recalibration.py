"""Forwards of update_bn are no evaluation."""

import torch
from torch import nn
from torch.optim import swa_utils


def test_the_pass_over_the_data_that_sets_statistics_again_is_no_evaluation(train) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    batches = [torch.randn(8, 4) for _ in range(3)]

    def between(step: int) -> None:
        if step == 1:
            swa_utils.update_bn(batches, model)
        elif step == 3:
            with torch.no_grad():
                for batch in batches:
                    model(batch)

    done = train(model, lambda step: model(batches[0]).square().sum(), after=between)

    counted = {row["step"]: row["eval_forwards"] or 0 for row in done.rows("steps")}
    assert sum(counted[step] for step in (1, 2)) == 0
    assert sum(counted[step] for step in (3, 4)) == 3
