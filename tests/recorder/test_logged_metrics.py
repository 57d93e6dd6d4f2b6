"""Numbers that a script gives to a writer of logs are in the recording."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from firstfault.schemas.files.layout import parts

LOOP = """
    import sys
    sys.path.insert(0, {libraries!r})
    import torch
    from torch import nn
    from tensorboardX import SummaryWriter

    torch.manual_seed(0)
    writer, model = SummaryWriter(), nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(6):
        model.train()
        loss = model(torch.randn(8, 4)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss", loss.detach(), global_step=10 * i)
        if i % 3 == 2:
            model.eval()
            with torch.no_grad():
                writer.add_scalars("val", {{"a": model(torch.ones(8, 4)).mean(), "b": 3}}, i)
"""
LIBRARIES = str(Path(__file__).parents[1] / "corpus" / "libraries")


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for *_, part in parts(run, table) for row in pq.read_table(part).to_pylist()]


def test_numbers_given_to_a_writer_are_metrics_of_the_step_that_has_just_ended(bench: Any) -> None:
    run = bench.record(bench.write(LOOP.format(libraries=LIBRARIES))).run

    logged = rows(run, "metrics")

    losses = {r["step"]: r["loss"] for r in rows(run, "steps") if r["completed"]}
    assert {r["source"] for r in logged} == {"tensorboard"}
    assert {r["step"]: r["value"] for r in logged if r["name"] == "loss"} == losses
    assert [r["logged_step"] for r in logged if r["name"] == "loss"] == [0, 10, 20, 30, 40, 50]
    assert [(r["step"], r["value"]) for r in logged if r["name"] == "val/b"] == [(2, 3.0), (5, 3.0)]
