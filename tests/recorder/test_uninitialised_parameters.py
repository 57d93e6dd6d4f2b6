"""Parameters made of memory as it is, and what fills them."""

import json
from pathlib import Path

import pytest
from firstfault.analyzer import Trace
from firstfault.recorder.script.uninitialised import unfilled

MODEL = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, n=6):
        super().__init__()
        self.score = nn.Linear(n, n)
        self.bias = MADE
        MORE

    def forward(self, x):
        return torch.softmax(self.score(x) + self.bias, -1)
METHODS
"""

LOOP = """
model = Attention()
OUTSIDE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(4, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

EMPTY = "nn.Parameter(torch.empty(n))"


def source(made: str = EMPTY, more: str = "pass", methods: str = "") -> str:
    return MODEL.replace("MADE", made).replace("MORE", more).replace("METHODS", methods)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (source(), ["bias"]),
        (source("nn.Parameter(torch.Tensor(n, n))"), ["bias"]),
        (source("nn.Parameter(torch.zeros(n))"), []),
        (source("nn.Parameter(torch.Tensor([1.0, 2.0]))"), []),
        (source("nn.Parameter(torch.Tensor(array))"), []),
        (source(more="nn.init.zeros_(self.bias)"), []),
        (source(more="self.bias.data.fill_(0)"), []),
        (source(more="self.reset_parameters()"), []),
        (source(more="self.fill()", methods="    def fill(self):\n        self.bias.data.zero_()"), []),
        (source(methods="    def fill(self):\n        for p in self.parameters():\n            p.data.zero_()"), []),
        (source(more="self.apply(fill)"), []),
        (source(more="for name in ('bias',):\n            nn.init.zeros_(vars(self)[name])"), []),
    ],
)
def test_what_a_class_leaves_as_it_was(tmp_path: Path, text: str, found: list[str]) -> None:
    file = tmp_path / "model.py"
    file.write_text(text, "utf-8")
    assert [slip.attribute for slip in unfilled(str(file))] == found


@pytest.mark.parametrize(
    ("outside", "told"),
    [
        ("", ["bias"]),
        ("nn.init.normal_(next(p for n, p in model.named_parameters() if n[0] == 'b'))", []),
        ("model.load_state_dict(Attention().state_dict())", []),
        ("for p in model.parameters():\n    p.data.uniform_()", []),
    ],
)
def test_what_nobody_has_written_to_is_told(bench, outside: str, told: list[str]) -> None:
    script = bench.write(source() + LOOP.replace("OUTSIDE", outside))
    done = bench.record(str(script))
    assert done.returncode == 0
    with Trace(done.run) as trace:
        rows = trace.sql("SELECT detail FROM events WHERE event = 'parameter-unfilled'").rows()
    assert [json.loads(detail)["attribute"] for (detail,) in rows] == told
