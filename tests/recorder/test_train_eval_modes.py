"""Changes of a model between training and evaluation mode are in the recording."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


def test_each_switch_of_a_model_between_modes_is_an_event(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(tmp_path / "run", model=model):
        for i in range(6):
            model.train()
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if i % 3 == 2:
                model.eval()
                with torch.no_grad():
                    model(torch.ones(8, 4))

    events = [row for *_, part in parts(tmp_path / "run", "events") for row in pq.read_table(part).to_pylist()]
    changes = [row["message"].split(" is in ")[1] for row in events if row["event"] == "mode-changed"]
    assert changes == ["evaluation mode now", "training mode now", "evaluation mode now"]
