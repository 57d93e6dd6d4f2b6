"""What a line's place in the loop tells: the step of an exception, and which number is the loss of an evaluation."""

import json
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.schemas.files.layout import parts

LOOP = """
import torch

model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def batch(i, bad):
    if i == bad:
        raise KeyError("sample")
    return torch.ones(16, 4)


def report(i, bad):
    if i == bad:
        raise KeyError("prefix")


def train(head, tail):
    for i in range(8):
        x = batch(i, head)
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        report(i, tail)


train({head}, {tail})
"""

EVALUATION = """
import torch

model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randint(2, (32,))
for i in range(6):
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    print(loss.item())
    if i % 2:
        with torch.no_grad():
            for part in (slice(16), slice(16, 32)):
                out = model(x[part])
                val_loss = torch.nn.functional.cross_entropy(out, y[part])
                print(val_loss.item(), (out.argmax(1) == y[part]).float().mean().item())
        print("training loss", loss.item())
"""


def recorded(tmp_path: Path, text: str, *, status: int) -> Path:
    script = tmp_path / "train.py"
    script.write_text(text)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(script)]
    done = forked.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return run


@pytest.mark.parametrize(("head", "tail"), [(5, -1), (-1, 5)])
def test_an_exception_belongs_to_the_iteration_in_whose_lines_it_was_raised(
    tmp_path: Path, head: int, tail: int
) -> None:
    run = recorded(tmp_path, LOOP.replace("{head}", str(head)).replace("{tail}", str(tail)), status=1)
    assert json.loads((run / "exit.json").read_text())["exception"]["step"] == 5


@pytest.mark.parametrize("variable", [pytest.param("val_loss", marks=pytest.mark.suite), "v"])
def test_the_loss_of_an_evaluation_is_known_from_the_line_that_reads_it(tmp_path: Path, variable: str) -> None:
    run = recorded(tmp_path, EVALUATION.replace("val_loss", variable), status=0)
    metrics = [row for part in parts(run, "metrics") for row in pq.read_table(part.path).to_pylist()]
    assert [(row["step"], row["source"]) for row in metrics] == [(1, "read"), (3, "read"), (5, "read")]
    assert all(row["name"].endswith("train.py:18 in <module>)") for row in metrics)
    assert all(0 < row["value"] < 3 for row in metrics)
