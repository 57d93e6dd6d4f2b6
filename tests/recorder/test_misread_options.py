"""Options that were given a text for no and became True are told; what reads the text is not."""

import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose

SCRIPT = """
import argparse
import torch
from torch import nn

def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_bn", {how})
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()

args = options()
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), args.lr)
for step in range(8):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
print(args.use_bn)
"""

HEALTHY = """type=bool, default=True)
    parser.add_argument("--shuffle", type=bool, default=False)
    parser.add_argument("--amp", type=bool)
    parser.add_argument("--ema", type=lambda text: text == "True")
    parser.add_argument("--log", action=argparse.BooleanOptionalAction"""


@pytest.mark.parametrize(
    ("how", "given", "found"),
    [
        ("type=bool, default=True", ("--use_bn", "False"), (False, "False")),
        ("'-b', type=bool, default=True", ("-b", "0"), (False, "0")),
        ("type=bool, default='no'", (), (True, "no")),
        (HEALTHY, ("--use_bn=", "--amp", "True", "--ema", "False", "--no-log"), None),
    ],
)
def test_an_option_that_cannot_say_no_is_named(
    tmp_path: Path, how: str, given: tuple[str, ...], found: tuple[bool, str] | None
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{how}", how))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, tmp_path / "script.py", *given]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT detail ->> '$.option', (detail ->> '$.by_default')::BOOL, detail ->> '$.text', detail ->> '$.place'"
            " FROM events WHERE event IN ('option-misread', 'recorder-fault')"
        ).rows()
        causes = [c.name for c in diagnose(trace).causes]
    assert rows == ([("--use_bn", *found, "script.py:10 in options")] if found else [])
    assert ("option-misread" in causes) == (found is not None)
