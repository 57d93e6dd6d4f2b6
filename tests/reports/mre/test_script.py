"""A script made from a capture ends as the run did, alone, and ends well when what was wrong is mended."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import msgspec
import pytest
import torch
from firstfault.application import build_app
from firstfault.recorder.capture.call_recipe import Planner
from firstfault.reports.mre.script_code import code_for
from torch import nn
from typer.testing import CliRunner

HEAD = """
import argparse
import sys
import torch
from torch import nn
import torch.nn.functional as F

WIDTH = 8
args = argparse.Namespace(bad=4)

nn.Module.given = None  # what the caller still holds after the call

class Gate:
    def __init__(self, power):
        raise RuntimeError("constructors are not run again")

def centred(x):
    return x - x.mean(-1, keepdim=True)
"""

TRAIN = """
def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    for step in range(6):
        x, y = torch.randn(4, 5, WIDTH), torch.randint(0, 3, (4,))
        loss, held = train(net, x, y, step == args.bad), net.given
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

main()  # without a guard: whoever imports this script trains
"""

OF_TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)
    def forward(self, x, padding):
        return self.head(self.attention(x, x, x, key_padding_mask=padding)[0].mean(1))

def train(net, x, y, bad):
    padding = torch.zeros(4, 5, dtype=torch.bool)
    padding[2] = bad
    net.given = padding
    return F.cross_entropy(net(x, padding), y)
"""

OF_THE_SCRIPT = """
class Normed(nn.Module):
    def __init__(self, width, *, eps):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(width))
        self.drop = nn.Dropout(0.25)
        self.steps = {"order": (1, float("inf")), "act": F.relu, "kind": torch.float32}
        self.handle = open(__file__)
    def forward(self, x, mask):
        y = self.drop(centred(self.steps["act"](x) + x) * mask)
        assert self.steps["order"] == (1, float("inf")) and self.steps["kind"] is torch.float32
        return self.scale * y / (y.std(-1, keepdim=True) + self.eps)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Normed(WIDTH, eps=0.0)
        self.head = nn.Linear(WIDTH, 3)
    def forward(self, x, mask):
        return self.head(self.norm(x, mask).mean(1))

def train(net, x, y, bad):
    mask = torch.ones(4, 5, 1)
    mask[1, 3] = 0.0 if bad else 1.0
    net.given = mask
    return F.cross_entropy(net(x, mask), y)
"""

RECURRENT = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(WIDTH, 6, 2, batch_first=True)
        self.head = nn.Linear(6, 3)
    def forward(self, x, state):
        return self.head(self.memory(x, state)[0][:, -1])

def train(net, x, y, bad):
    if bad:
        x = torch.randn(4, 5, WIDTH + 1)
    return F.cross_entropy(net(x, (torch.zeros(2, 4, 6), torch.zeros(2, 4, 6))), y)
"""

FUNCTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(WIDTH, 3)
    def forward(self, x):
        return self.head(x.mean(1))

def train(net, x, y, bad):
    if bad:
        y[2] = 9
    return F.cross_entropy(net(x), y)
"""

BACKWARD = """
class Length(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
    def forward(self, x):
        return (x * self.scale).square().sum(-1).sqrt()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = Length()
        self.head = nn.Linear(5, 3)
    def forward(self, x):
        return self.head(self.length(x))

def train(net, x, y, bad):
    if bad:
        x[1, 2] = 0.0
    return F.cross_entropy(net(x), y)
"""


@pytest.fixture
def mre(tmp_path: Path) -> Any:
    app = build_app("mre")

    def make(run: Path, *options: str) -> Any:
        out = tmp_path / "made" / "mre.py"
        out.parent.mkdir(exist_ok=True)
        done = CliRunner().invoke(app, ["mre", str(run), "--out", str(out), *options], catch_exceptions=False)
        return done, out

    return make


def record(folder: Path, parts: str, name: str = "train.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text(HEAD + parts + TRAIN)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(folder / "run"), str(script)]
    forked.run(command)
    assert (folder / "run" / "captures").is_dir()
    return folder / "run"


def start(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -I: no firstfault on the path of a checkout, no user's settings
    return subprocess.run([sys.executable, "-I", str(script), *arguments], capture_output=True, text=True, check=False)


def mended(script: Path, old: str, new: str) -> subprocess.CompletedProcess[str]:
    text = script.read_text()
    assert text.count(old) == 1
    script.write_text(text.replace(old, new))
    return forked.run([sys.executable, script], text=True)


@pytest.mark.suite
def test_a_module_of_torch_loses_its_value_again_and_not_with_a_mended_input(mre, tmp_path):
    done, script = mre(record(tmp_path / "work", OF_TORCH))
    again = start(script)

    assert done.exit_code == 0
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1].startswith(
        "FloatingPointError: output: 40 of 160 values are NaN, the first at [2,"
    )
    assert "firstfault" not in script.read_text().partition('"""\n')[2].replace(str(tmp_path), "").replace(
        "use the firstfault that", ""
    )
    line = "CALL_INPUTS = mre_load('module.pt')\n"
    whole = mended(script, line, line + "CALL_INPUTS['kwargs']['key_padding_mask'][2] = False\n")
    assert (whole.returncode, whole.stdout) == (0, "not reproduced: output and gradients are finite\n")


@pytest.mark.slow
def test_a_class_of_the_script_comes_with_what_it_needs_and_without_the_training(mre, tmp_path):
    done, script = mre(record(tmp_path / "work", OF_THE_SCRIPT))
    shutil.rmtree(tmp_path / "work" / "__pycache__", ignore_errors=True)
    (tmp_path / "work" / "train.py").unlink()  # nothing is imported from it
    again = start(script)

    text = script.read_text()
    assert "class Normed(nn.Module):" in text
    assert "def centred(x):" in text
    assert "class Gate" not in text
    assert "manual_seed" not in text
    assert "handle: a TextIOWrapper is not kept" in done.stderr
    assert again.returncode == 1, again.stderr
    assert "FloatingPointError: output: 8 of 160 values are NaN, the first at [1, 3, 0]" in again.stderr
    before = script.read_text()
    assert mended(script, "y.std(-1, keepdim=True) + self.eps", "y.std(-1, keepdim=True) + 1e-5").returncode == 0
    script.write_text(before)
    line = "CALL_INPUTS = mre_load('module.pt')\n"
    assert mended(script, line, line + "CALL_INPUTS['args'][1].fill_(1)\n").returncode == 0


@pytest.mark.suite
@pytest.mark.slow
def test_an_exception_comes_back_with_a_recurrent_module_and_its_tuple_of_states(mre, tmp_path):
    run = record(tmp_path / "work", RECURRENT)
    _, script = mre(run)
    again = start(script)

    told = json.loads((run / "exception-rank=0000.json").read_text())
    assert again.returncode == 1
    assert again.stderr.startswith("as in the run:")
    assert told["message"] in again.stderr.splitlines()[-1]
    line = "CALL_INPUTS = mre_load('module.pt')\n"
    whole = mended(script, line, line + "CALL_INPUTS['args'][0] = CALL_INPUTS['args'][0][..., :8]\n")
    assert whole.returncode == 0, whole.stderr


@pytest.mark.suite
def test_an_exception_in_a_function_of_torch_comes_back_outside_of_all_modules(mre, tmp_path):
    _, script = mre(record(tmp_path / "work", FUNCTION))
    again = start(script)

    assert "IndexError: Target 9 is out of bounds." in again.stderr
    assert again.stderr.startswith("as in the run:")
    line = "CALL_INPUTS = mre_load('call.pt')\n"
    assert mended(script, line, line + "CALL_INPUTS['kwargs']['target'][2] = 0\n").returncode == 0


@pytest.mark.suite
@pytest.mark.slow
def test_a_gradient_is_lost_again(mre, tmp_path):
    run = record(tmp_path / "work", BACKWARD)
    _, script = mre(run)
    again = start(script)

    assert again.returncode == 1, again.stdout
    assert "FloatingPointError: gradient of" in again.stderr
    line = "CALL_INPUTS = mre_load('module.pt')\n"
    assert mended(script, line, line + "CALL_INPUTS['args'][0][1, 2] = 1.0\n").returncode == 0
    moved = shutil.move(run / "captures" / "step=000004-rank=0000", tmp_path / "elsewhere")
    assert start(script).returncode == 1
    assert "Traceback" in start(script).stderr
    assert start(script, str(moved)).returncode == 0


@pytest.mark.suite
@pytest.mark.slow
def test_modules_of_every_kind_are_rebuilt_without_their_constructors(mre, tmp_path):
    _, script = mre(record(tmp_path / "work", OF_TORCH))
    made = runpy.run_path(str(script), run_name="made")
    x, image = torch.randn(3, 2, 8), torch.randn(2, 3, 8, 8)
    inside = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.5))
    tied = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    tied[2].weight = tied[0].weight
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    for module, args in (
        (nn.TransformerEncoder(layer, 2, nn.LayerNorm(8)), (x,)),
        (nn.GRU(8, 5, 2, bidirectional=True, dropout=0.1), (x,)),
        (nn.LSTMCell(8, 5), (x[0],)),
        (nn.MultiheadAttention(8, 2), (x, x, x)),
        (nn.CrossEntropyLoss(weight=torch.rand(8)), (x[0], torch.tensor([0, 3]))),
        (inside, (image,)),
        (tied, (x,)),
    ):
        planner = Planner()
        plan = msgspec.json.decode(msgspec.json.encode(planner.module_call(module, args, {}, "module.pt")))
        made["CALL_WEIGHTS"].clear()
        made["CALL_WEIGHTS"].update({k: v.clone() for k, v in module.state_dict().items()} | planner.tensors)
        modules: dict[str, Any] = {}
        twin = made["mre_rebuild"](plan["root"], "", modules)
        made["mre_give_attributes"](plan["root"], "", modules)
        with torch.random.fork_rng():
            outputs = []
            for one in (module, twin):
                torch.manual_seed(1)
                outputs.append(made["mre_floats_of"](one(*args)))
        assert plan["lost"] == []
        assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True)), module
    hooked = nn.Linear(3, 3)
    hooked.register_forward_pre_hook(lambda module, args: args)
    assert Planner().module_call(hooked, (x,), {}, "module.pt").lost == ["hooks of the module"]


def test_names_and_messages_of_strangers_are_text_and_nothing_else(mre, tmp_path):
    hostile = 'it"""\n\nimport os; os.mkdir("pwned")\n"""{{ 7*7 }}\\'
    parts = FUNCTION.replace("y[2] = 9", f"raise ValueError({hostile!r})").replace(
        "F.cross_entropy(", "F.cross_entropy("
    )
    parts = parts.replace(
        "return self.head(x.mean(1))",
        "y = x.mean(1)\n        if bad: " + f"raise ValueError({hostile!r})\n        return self.head(y)",
    )
    parts = parts.replace("def forward(self, x):", "def forward(self, x, bad):").replace("net(x)", "net(x, bad)")
    folder = tmp_path / 'it\'s a "place"\n{{ 1 }}'
    done, script = mre(
        record(folder, parts.replace(f"    if bad:\n        raise ValueError({hostile!r})\n", ""), "train it.py")
    )
    again = forked.run([sys.executable, script], text=True, cwd=script.parent)

    assert done.exit_code == 0, done.stderr
    assert again.stderr.startswith("as in the run:"), again.stderr
    assert hostile.splitlines()[-1] in again.stderr
    assert not list(tmp_path.rglob("pwned"))


def test_secrets_in_the_run_s_script_and_in_its_modules_reach_neither_the_capture_nor_the_new_script(mre, tmp_path):
    secrets = {"HUB": "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5", "PASSWORD": "correct" + "horse"}
    parts = FUNCTION.replace(
        "self.head = nn.Linear(WIDTH, 3)",
        "self.head = nn.Linear(WIDTH, 3)\n        self.hub = HUB\n        self.settings = {'password': PASSWORD}",
    ).replace(
        "return self.head(x.mean(1))",
        f"if bad: raise ValueError('bad')  # {secrets['HUB']}\n        return self.head(x.mean(1))",
    )
    parts = parts.replace("def forward(self, x):", "def forward(self, x, bad):").replace("net(x)", "net(x, bad)")
    run = record(tmp_path / "work", "".join(f"{name} = {value!r}\n" for name, value in secrets.items()) + parts)
    done, script = mre(run)
    again = forked.run([sys.executable, script], text=True)

    everything = script.read_bytes() + b"".join(p.read_bytes() for p in run.rglob("*") if p.is_file())
    assert [name for name, value in secrets.items() if value.encode() in everything] == []
    assert "note: secrets of train.py are left out" in done.stderr
    assert again.stderr.startswith("as in the run:"), again.stderr


def test_without_a_capture_there_is_one_sentence_with_the_next_step(mre, run_folder, tmp_path):
    run = run_folder("plain")
    run.step(0)
    done, script = mre(run.write())

    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "nothing was captured in this run" in done.stderr
    assert not script.exists()


def test_the_code_of_a_script_is_taken_without_what_would_have_to_run():
    source = '''"""Trains."""
from __future__ import annotations
import argparse, torch
from torch import nn
try:
    import fast
except ImportError:
    fast = None
args = argparse.ArgumentParser().parse_args()
SIZES = [n * 2 for n in range(3)]
model = build()

@torch.no_grad()
def helper(x: "Tensor"):
    return x * SIZES[0] * args.scale

def outer(depth):
    width = 4
    class Inner(nn.Module):
        def forward(self, x):
            return helper(x)[: width + depth]
    return Inner()

class Unused: ...
'''
    found = code_for(source, ["outer.<locals>.Inner", "Gone"])

    compile(found.text, "mre.py", "exec")
    assert found.future == "from __future__ import annotations"
    assert found.missing == ["Gone"]
    assert [v.partition(",")[0] for v in found.values] == ["depth", "width", "args"]
    assert "@torch.no_grad()\ndef helper" in found.text
    assert "class Inner(nn.Module):" in found.text
    assert "SIZES =" in found.text
    for absent in ("Unused", "parse_args", "build()", "def outer", "fast"):
        assert absent not in found.text
