"""Two listings of different order that a script pairs by their places are told; what sorts, compares or shuffles them is not."""

import ast
import random
import sys
from pathlib import Path

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.script.paired_listings import paired_in

SCRIPT = """
import glob
import os
import random
import tempfile
from pathlib import Path
import torch
from torch import nn

root = Path(tempfile.mkdtemp())
images, masks = root / "images", root / "masks"
images.mkdir(), masks.mkdir()
for i in range(12):
    (images / f"img_{i}.png").write_text("")
for i in random.Random(0).sample(range(12), 12):
    (masks / f"mask_{i}{suffix}.png").write_text("")
{pairs}
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(3):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
"""

DATASET = """
class Pairs(torch.utils.data.Dataset):
    def __init__(self):
        self.images = {a}
        files = {b}
        self.masks = [os.path.join(masks, f) for f in files]
        assert len(self.images) == len(self.masks)
    def __getitem__(self, i):
        return self.images[i], self.masks[i]
Pairs()[0]
"""


def _written(tmp_path: Path, pairs: str, suffix: str = "") -> list[tuple[object, ...]]:
    (tmp_path / "script.py").write_text(SCRIPT.replace("{pairs}", pairs).replace("{suffix}", suffix))
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", run, tmp_path / "script.py"]
    assert forked.run(command, cwd=tmp_path).returncode == 0
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT detail ->> '$.text', (detail ->> '$.files')::INT FROM events"
            " WHERE event IN ('listings-paired', 'recorder-fault')"
        ).rows()
        assert bool(rows) == ("files-paired-apart" in [c.name for c in diagnose(trace).causes])
    return rows


def _orders_differ(tmp_path: Path) -> bool:
    """Whether the file system lists names in an order of its own."""
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir(), b.mkdir()
    for i in range(12):
        (a / f"img_{i}.png").write_text("")
    for i in random.Random(0).sample(range(12), 12):
        (b / f"mask_{i}.png").write_text("")
    return [p.name[4:] for p in a.iterdir()] != [p.name[5:] for p in b.iterdir()]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (DATASET.replace("{a}", "os.listdir(images)").replace("{b}", "os.listdir(masks)"), "self.masks[i]"),
        (
            "def load():\n    return list(zip(glob.glob(f'{images}/*.png'),\n        glob.glob(f'{masks}/*.png')))\nload()",
            "zip(glob.glob(f'{images}/*.png'), glob.glob(f'{masks}/*.png'))",
        ),
        (
            "a = list(images.glob('*.png'))\nb = list(masks.iterdir())\nfor i, x in enumerate(a):\n    print(x, b[i])",
            "b[i]",
        ),
    ],
)
def test_two_orders_that_meet_by_their_places_are_named(tmp_path: Path, pairs: str, text: str) -> None:
    if not _orders_differ(tmp_path):
        pytest.skip("this file system lists both folders in one order")

    assert _written(tmp_path, pairs) == [(text, 12)]


def test_names_that_do_not_correspond_or_are_sorted_are_none(tmp_path: Path) -> None:
    pairs = DATASET.replace("{a}", "os.listdir(images)").replace("{b}", "os.listdir(masks)")
    (tmp_path / "other").mkdir(), (tmp_path / "sorted").mkdir()

    assert _written(tmp_path / "other", pairs, suffix="{i * 7}") == []
    pairs = DATASET.replace("{a}", "sorted(os.listdir(images))").replace("{b}", "sorted(os.listdir(masks))")
    assert _written(tmp_path / "sorted", pairs) == []


@pytest.mark.parametrize(
    "text",
    [
        "a, b = sorted(os.listdir(x)), sorted(os.listdir(y))\nfor p in zip(a, b): pass",
        "a = os.listdir(x)\nb = os.listdir(y)\na.sort()\nb.sort()\nfor p in zip(a, b): pass",
        "a = os.listdir(x)\nb = os.listdir(y)\nrandom.shuffle(a)\nfor p in zip(a, b): pass",
        "a = os.listdir(x)\nb = [f.replace('img', 'mask') for f in a]\nfor p in zip(a, b): pass",
        "a = os.listdir(x)\nb = os.listdir(x)\nfor p in zip(a, b): pass",
        "a = os.listdir(x)\nb = os.listdir(y)\nfor f in a:\n    if f in b: pass",
        "a = os.listdir(x)\nb = os.listdir(y)\nfor p, q in zip(a, b):\n    assert p.split('.')[0] == q.split('.')[0]",
        "a = natsorted(os.listdir(x))\nb = natsorted(os.listdir(y))\nfor i in range(9): a[i], b[i]",
        "a = os.listdir(x)\nb = os.listdir(y)\nfor i, j in zip(r, s): a[i], b[j]",
        "a = os.listdir(x)\nb = os.listdir(y)\na, b = match(a, b)\nfor i in range(9): a[i], b[i]",
        "a = {f[:3]: f for f in os.listdir(x)}\nb = {f[:3]: f for f in os.listdir(y)}\nfor i in a: a[i], b[i]",
        (
            "class D:\n    def __init__(self):\n        self.a = os.listdir(x)\n        self.b = os.listdir(y)\n"
            "        self.a.sort()\n        self.b.sort()\n    def __getitem__(self, i):\n        return self.a[i], self.b[i]"
        ),
        (
            "class D:\n    def __init__(self):\n        self.a = os.listdir(x)\n        self.b = os.listdir(y)\n"
            "    def __getitem__(self, i):\n        return self.a[i % 3], self.b[random.randrange(3)]"
        ),
        (
            "a, b = [], []\nfor d in os.listdir(x):\n    for f in os.listdir(d):\n        a.append(f)\n        b.append(d)\n"
            "TensorDataset(torch.tensor(a), torch.tensor(b))"
        ),
    ],
)
def test_what_is_sorted_compared_shuffled_or_one_listing_is_none(text: str) -> None:
    assert list(paired_in(ast.parse(text), text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "a = os.listdir(x)\nb = os.listdir(y)\na = [f for f in a if f.endswith('.png')]\nfor p in zip(a, b): pass",
        (
            "a, b = [], []\nfor f in os.listdir(x):\n    a.append(load(f))\nfor f in os.listdir(y):\n    b.append(load(f))\n"
            "a = np.array(a)\nb = np.array(b)\ntrain_test_split(a, b)"
        ),
        (
            "class D:\n    def __init__(self, x, y):\n        a = list(Path(x).iterdir())\n        self.a = a\n"
            "        self.b = list(Path(y).iterdir())\n    def __getitem__(self, i):\n        return load(self.a[i]), self.b[i]"
        ),
    ],
)
def test_filters_loops_and_attributes_keep_the_order(text: str) -> None:
    assert len(list(paired_in(ast.parse(text), text))) == 1
