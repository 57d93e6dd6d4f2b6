"""Scripts whose numbers are numpy's: attributes of modules, hyperparameters, rates of a schedule."""

import json
from pathlib import Path

import numpy as np
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn


class Scaled(nn.Linear):
    """A layer that keeps numbers and a name of numpy's classes."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.scale, self.times, self.title = np.float64(0.5), np.int64(3), np.str_("last")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.scale


def test_a_script_full_of_numpys_numbers_is_recorded_whole(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Scaled())
    optimizer = torch.optim.SGD(
        model.parameters(), lr=np.float64(0.1), momentum=np.float64(0.9), weight_decay=np.float64(1e-4)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: np.float64(1 / (1 + epoch)))
    with Recorder(tmp_path / "run", model=model) as recorder:
        for rate in np.linspace(0.1, 0.01, 6):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), np.float64(1.0))
            optimizer.step()
            schedule.step()
            optimizer.param_groups[0]["lr"] = rate
            recorder.log(rate=rate, steps=np.int64(2**40))

    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT event FROM events WHERE event = 'recorder-fault'").is_empty()
        assert trace.steps_recorded() == 6
        settings = trace.rows("SELECT settings FROM modules WHERE class_name = 'Scaled'")[0]["settings"]
        rates = trace.sql("SELECT DISTINCT lr FROM param_groups WHERE step = 5")["lr"].to_list()
    assert json.loads(settings) == {"in_features": 4, "out_features": 2, "scale": 0.5, "title": "last"}
    assert rates == [np.linspace(0.1, 0.01, 6)[4]]
