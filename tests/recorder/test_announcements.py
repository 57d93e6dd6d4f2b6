"""Warnings, mode changes, compilations and logged numbers are in the recording, and the script sees none of it."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from firstfault.schemas.layout import parts

LOOP = """
    import sys, warnings
    sys.path.insert(0, {double!r})
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
        warnings.warn("twice is once")
        with warnings.catch_warnings(record=True) as kept:
            warnings.simplefilter("always")
            warnings.warn("kept by the script")
        assert len(kept) == 1
        if i % 3 == 2:
            model.eval()
            with torch.no_grad():
                writer.add_scalars("val", {{"a": model(torch.ones(8, 4)).mean(), "b": 3}}, i)
"""
DOUBLE = str(Path(__file__).parents[1] / "faults")


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for *_, part in parts(run, table) for row in pq.read_table(part).to_pylist()]


def test_numbers_given_to_a_writer_are_metrics_of_the_step_that_has_just_ended(bench: Any) -> None:
    run = bench.record(bench.write(LOOP.format(double=DOUBLE))).run

    logged = rows(run, "metrics")

    losses = {r["step"]: r["loss"] for r in rows(run, "steps") if r["completed"]}
    assert {r["source"] for r in logged} == {"tensorboard"}
    assert {r["step"]: r["value"] for r in logged if r["name"] == "loss"} == losses
    assert [r["logged_step"] for r in logged if r["name"] == "loss"] == [0, 10, 20, 30, 40, 50]
    assert [(r["step"], r["value"]) for r in logged if r["name"] == "val/b"] == [(2, 3.0), (5, 3.0)]


def test_a_warning_is_an_event_once_and_one_that_the_script_keeps_is_none(bench: Any) -> None:
    script = bench.write(LOOP.format(double=DOUBLE))
    recorded = bench.record(script)

    warned = [r["message"] for r in rows(recorded.run, "events") if r["event"] == "warning"]

    assert warned == ["UserWarning: twice is once"]
    assert recorded.stderr.count(b"twice is once") == bench.plain(script).stderr.count(b"twice is once")


def test_each_switch_of_a_model_between_modes_is_an_event(bench: Any) -> None:
    run = bench.record(bench.write(LOOP.format(double=DOUBLE))).run

    changes = [r["message"].split(" is in ")[1] for r in rows(run, "events") if r["event"] == "mode-changed"]

    assert changes == ["evaluation mode now", "training mode now", "evaluation mode now"]


def test_a_new_graph_of_torch_compile_is_an_event(bench: Any) -> None:
    run = bench.record(
        bench.write("""
            import torch
            model = torch.compile(torch.nn.Linear(4, 2), backend="eager", dynamic=False)
            opt = torch.optim.SGD(model.parameters(), 0.1)
            for i in range(6):
                opt.zero_grad()
                model(torch.randn(8 if i < 4 else 9, 4)).sum().backward()
                opt.step()
        """)
    ).run

    said = [r for r in rows(run, "events") if r["event"] in {"compiled", "recompiled"}]

    assert [(r["step"], r["event"]) for r in said] == [(0, "compiled"), (4, "recompiled")]
