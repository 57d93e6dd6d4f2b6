"""What stands in the source of a model and of its training loop, and does nothing, is told; what only looks like it is not."""

import sys
from pathlib import Path

import forked
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.slips import slips

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
    def forward(self, x):
        return x + torch.tanh(self.fc(x))

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return self.attend(self.fc(x), x)
    def attend(self, scores, x):
        {attend}
        return scores.softmax(-1) * x
    def unused(self, x):
        x.masked_fill(x > 0, 0.0)
        return x

def main():
    torch.manual_seed(0)
    block = Block(8)
    model = nn.Sequential({blocks}, Attention(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    data, targets = torch.randn(64, 8), torch.randn(64, 1)
    for step in range(8):
        x, y = data[step * 8:step * 8 + 8], targets[step * 8:step * 8 + 8]
        {loop}
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

values = torch.randn(3)
values.softmax(-1)
main()
"""


def _events(tmp_path: Path, **parts: str) -> tuple[list[tuple[object, ...]], list[str]]:
    text = SCRIPT
    for name, value in parts.items():
        text = text.replace(f"{{{name}}}", value)
    (tmp_path / "script.py").write_text(text)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, tmp_path / "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT event, coalesce(m.module, '-'), e.detail ->> '$.text', e.detail ->> '$.place' FROM events e"
            " LEFT JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id"
            " WHERE event IN ('result-discarded', 'module-repeated', 'recorder-fault') ORDER BY ALL"
        ).rows()
        return rows, [c.name for c in diagnose(trace).causes if c.severity != "warning"]


def test_results_that_nobody_takes_and_a_list_of_one_module_are_named_with_their_lines(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores.masked_fill(x > 0, -1e9)",
        blocks="*[Block(8)] * 3",
        loop="torch.clamp(x, -1, 1)",
    )

    assert rows == [
        ("module-repeated", "", "[Block(8)] * 3", "script.py:29"),
        ("result-discarded", "-", "torch.clamp(x, -1, 1)", "script.py:34"),
        ("result-discarded", "3", "scores.masked_fill(x > 0, -1e9)", "script.py:20"),
    ]
    assert {"result-discarded", "module-repeated"} <= set(causes)


def test_what_is_taken_done_in_place_shared_by_a_name_or_never_called_is_none(tmp_path: Path) -> None:
    rows, causes = _events(
        tmp_path,
        attend="scores = scores.masked_fill(x > 0, -1e9); F.relu(scores + 0, inplace=True)",
        blocks="*[Block(8) for _ in range(2)], *[nn.Tanh()] * 3, *[block] * 2",
        loop="torch.clamp(x, -1, 1, out=x); x.clamp_(-1, 1)",
    )

    assert rows == []
    assert not {"result-discarded", "module-repeated"} & set(causes)


def test_a_file_that_is_no_python_or_is_gone_holds_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n    x.clamp(0)\n")

    assert slips(str(broken)) == ((), (), ())
    assert slips(str(tmp_path / "none.py")) == ((), (), ())
