"""In a notebook: a cell is recorded, its verdict and page are shown, and an interrupted cell leaves a readable run."""

import sys
from pathlib import Path

import nbformat
import pytest
from firstfault.analyzer import Trace
from jupyter_client.asynchronous.client import AsyncKernelClient  # noqa: F401 — fails here, not in a kernel, where it is missing
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

MODEL = """
import os, signal
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
x = torch.randn(64, 8)
y = x[:, :1] - x[:, 1:2]

def train(steps, before=lambda step: None):
    for step in range(steps):
        before(step)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss.item()
"""


def run(folder: Path, *cells: str) -> tuple[list, CellExecutionError | None]:
    """The cells of a notebook after they were run by a real kernel, and the error that ended it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    manager = AsyncKernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], language="python"
    )
    client = NotebookClient(
        notebook, km=manager, timeout=180, startup_timeout=180, resources={"metadata": {"path": str(folder)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        return notebook.cells, error
    return notebook.cells, None


def html_of(cell) -> str:
    return "".join(o["data"].get("text/html", "") for o in cell.outputs if o.output_type == "display_data")


@pytest.mark.slow
def test_a_cell_is_recorded_and_its_verdict_and_page_are_shown(tmp_path: Path):
    cells, error = run(
        tmp_path,
        "%load_ext firstfault",
        MODEL,
        "%%record night\nlast = train(20)",
        "print(last)",
        "%report",
    )
    assert error is None
    assert "No fault found in 20 recorded steps" in " ".join(html_of(cells[2]).split())
    assert float(cells[3].outputs[0].text) > 0, "variables of a recorded cell stay"
    assert "<iframe srcdoc=" in html_of(cells[4])
    with Trace(tmp_path / "night") as trace:
        both = "SELECT max(step) FROM (SELECT step FROM steps UNION ALL SELECT step FROM unwatched_steps)"
        assert trace.sql(both).item() == 19


@pytest.mark.slow
def test_an_interrupted_cell_leaves_a_readable_run_and_its_verdict(tmp_path: Path):
    cells, error = run(
        tmp_path,
        "%load_ext firstfault",
        MODEL,
        "%%record night\ntrain(50, lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 7 else None)",
    )
    assert error is not None
    assert error.ename == "KeyboardInterrupt"
    assert "night" in html_of(cells[2])
    with Trace(tmp_path / "night") as trace:
        assert trace.sql("SELECT count(DISTINCT step) FROM steps WHERE completed").item() == 7
        assert trace.exit is not None


@pytest.mark.suite
@pytest.mark.slow
def test_a_folder_that_is_in_use_is_one_clear_line(tmp_path: Path):
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "mine.txt").write_text("kept")
    _, error = run(tmp_path, "%load_ext firstfault", MODEL, "%%record night\ntrain(3)")
    assert error is not None
    assert error.ename == "UsageError"
    assert "night" in error.evalue
    assert (tmp_path / "night" / "mine.txt").read_text() == "kept"
