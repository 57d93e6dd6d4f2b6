"""Debug modes of torch that are on in a step stand in its row."""

import torch
from torch import nn


def test_anomaly_detection_is_noted_in_the_steps_in_which_it_is_on(train) -> None:
    model = nn.Linear(4, 2)
    try:
        done = train(
            model,
            lambda step: model(torch.ones(2, 4)).sum(),
            before=lambda step: torch.autograd.set_detect_anomaly(step in {2, 3}, check_nan=False),
        )
    finally:
        torch.autograd.set_detect_anomaly(False)
    modes = [row["debug_modes"] for row in done.rows("steps")]
    assert modes == [None, None, "anomaly detection", "anomaly detection", None, None]
