"""The flame graph: widths are times, nothing is lost where bars are merged, and the browser draws a profiled run."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose, rules_for
from firstfault.reports.page.render import write_page
from firstfault.reports.panels import reduce_panels
from firstfault.reports.sections.flame import MOST_BARS, REST, bars_of, tree_of
from firstfault.schemas import Phase

SCRIPT = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48)
        self.mlp = nn.Sequential(nn.Linear(48, 192), nn.GELU(), nn.Linear(192, 48))
    def forward(self, x):
        return x + self.mlp(self.norm(x))

net = nn.Sequential(nn.Embedding(50, 48), *(Block() for _ in range(6)), nn.Linear(48, 50))
optimizer = torch.optim.AdamW(net.parameters())
for step in range(10):
    x = torch.randint(0, 50, (8, 32))
    loss = nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def row(operator, ns, phase="forward", module=None, model=None):
    return {"phase": phase, "model": model, "module": module, "operator": operator, "ns": ns, "calls": 1}


def widths(bars):
    return {b.path: round((b.end - b.start) * 1e6) for b in bars}


def test_a_bar_is_as_wide_as_what_is_in_it_and_the_rest_of_the_step_has_one():
    rows = [
        row("mm", 500, module="enc.layers.0", model="net"),
        row("add", 100, module="enc.layers.1", model="net"),
        row("enc", 50, module="", model="net"),
        row("step", 150, phase="optimizer"),
    ]
    assert widths(bars_of(tree_of(rows, 1000.0))) == {
        "step": 1000,
        "forward": 650,
        "forward › enc.layers": 600,
        "forward › enc.layers › 0": 500,
        "forward › enc.layers › 0 › mm": 500,
        "forward › enc.layers › 1": 100,
        "forward › enc.layers › 1 › add": 100,
        "forward › enc": 50,
        "optimizer": 150,
        "optimizer › step": 150,
        REST: 200,
    }


def test_two_models_stand_apart():
    rows = [row("mm", 500, module="body", model="generator"), row("mm", 300, module="body", model="critic")]
    found = widths(bars_of(tree_of(rows, 800.0)))
    assert found["forward › generator.body"] == 500
    assert found["forward › critic.body"] == 300


def test_a_large_model_keeps_its_wide_bars_and_every_nanosecond():
    rows = [row(f"op{i}", 1e6 / (1 + i % 97), module=f"blocks.{i % 400}.mlp.{i % 7}", model="net") for i in range(5000)]
    rows.append(row("the slow one", 4e8, module="head", model="net"))
    bars = bars_of(tree_of(rows, 0.0))
    assert len(bars) <= MOST_BARS
    assert widths(bars)["forward › head › the slow one"] == 4e8
    (merged,) = [b for b in bars if b.depth == 3 and b.path.endswith("others") and "blocks" in b.path]
    level = [b for b in bars if b.depth == 3 and "blocks" in b.path]
    (blocks,) = [b for b in bars if b.path == "forward › blocks"]
    assert merged.end == pytest.approx(blocks.end)
    assert sum(b.end - b.start for b in level) == pytest.approx(blocks.end - blocks.start)


def test_the_panel_has_the_modules_in_words_and_strange_names_are_text(run_folder):
    run = run_folder()
    run.module(0, "")
    run.module(1, "<b>last</b>", class_name="Linear")
    for step in range(8):
        run.step(step)
    event = {"step": 5, "window_id": 0, "ph": "X", "pid": "1", "tid": "1", "cat": "cpu_op"}
    run.add("profiler_events", **event, event_id=0, name="aten::mm", module_id=1, ts_ns=0, dur_ns=6_000_000,
            self_ns=6_000_000, phase=int(Phase.FORWARD))  # fmt: skip
    run.add(
        "profiler_events", **event, event_id=1, name="aten::add", ts_ns=8_000_000, dur_ns=2_000_000, self_ns=2_000_000
    )
    with Trace(run.write()) as trace:
        (panel,) = [p for p in reduce_panels(trace, 0, None, None) if p.key == "flame"]

    assert dict(panel.facts)["Share of forward"] == "60.0%"
    assert dict(panel.facts)["Share of between operators"] == "20.0%"
    (_, grid), (_, operators) = panel.grids
    assert grid.rows[0] == ["forward", "<b>last</b>", "6 ms", "60.0%", "mm"]
    assert [row[0] for row in operators.rows] == ["aten::mm", "aten::add"]
    assert "forward › <b>last</b> › mm 60%" in panel.chart_label


@pytest.mark.slow
def test_a_profiled_run_is_drawn_without_a_message_and_names_what_is_under_the_mouse(open_page, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--profile", "5:8", "--out", str(tmp_path / "run")]
    forked.run([*command, str(script)], check=True)
    with Trace(tmp_path / "run") as trace:
        page = write_page(trace, diagnose(trace, rules_for(Path(tmp_path / "run"), None)), tmp_path / "report.html")

    for width in (1440, 400):
        opened = open_page(page, width=width).drawn()
        opened.page.locator("#panel-flame summary").click()
        opened.page.wait_for_selector("#panel-chart-flame svg")
        svg = opened.page.locator("#panel-chart-flame svg")
        assert svg.locator(".mark-rect path").count() > 50
        assert svg.bounding_box()["width"] <= width
        words = svg.locator(".mark-text text").all_text_contents()
        assert {"step", "forward", "backward"} <= set(words)
        svg.locator('.mark-rect.role-mark path[aria-label*="where: forward;"]').hover(force=True)
        opened.page.wait_for_selector("#vg-tooltip-element.visible")
        assert "of the step" in opened.page.locator("#vg-tooltip-element").inner_text()
        assert opened.said == []
    assert page.stat().st_size < 4_000_000
