"""Warnings and compilations are in the recording, and the script sees none of it."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from firstfault.schemas.files.layout import parts

LOOP = """
    import warnings
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for i in range(6):
        loss = model(torch.randn(8, 4)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        warnings.warn("twice is once")
        with warnings.catch_warnings(record=True) as kept:
            warnings.simplefilter("always")
            warnings.warn("kept by the script")
        assert len(kept) == 1
"""


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    return [row for *_, part in parts(run, table) for row in pq.read_table(part).to_pylist()]


def test_a_warning_is_an_event_once_and_one_that_the_script_keeps_is_none(bench: Any) -> None:
    script = bench.write(LOOP)
    recorded = bench.record(script)

    warned = [r["message"] for r in rows(recorded.run, "events") if r["event"] == "warning"]

    assert warned == ["UserWarning: twice is once"]
    assert recorded.stderr.count(b"twice is once") == bench.plain(script).stderr.count(b"twice is once")


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
