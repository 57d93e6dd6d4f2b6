"""A sampler of the script's own is iterated by the training and asked nothing by the recorder."""

import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
from firstfault.analyzer import Trace
from firstfault.analyzer.rules.rule import find_rule, run_rule
from firstfault.schemas.files.layout import parts

SCRIPT = """
import random
import torch
from torch.utils.data import BatchSampler, DataLoader, TensorDataset


class Buckets(BatchSampler):
    def __init__(self, size):
        self.size = size

    def _made(self):
        order = list(range(self.size))
        random.shuffle(order)
        return [order[i : i + 8] for i in range(0, self.size, 8)]

    def __iter__(self):
        return iter(self._made())

    def __len__(self):
        return len(self._made())  # draws from the same generator


random.seed(0)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4))
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for loader in (DataLoader(data, batch_sampler=Buckets(64)), DataLoader(data, batch_size=8, shuffle=True)):
    for epoch in range(2):
        for (x,) in loader:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            print(loss.item().hex())
"""


def test_a_length_that_draws_random_numbers_is_not_asked_for(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    plain = forked.run([sys.executable, script], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(script)]
    recorded = forked.run(command, capture_output=True, text=True, check=True)

    assert recorded.stdout == plain.stdout
    rows = [row for part in parts(run, "batches") for row in pq.read_table(part.path).to_pylist()]
    known = [row["loader_batches"] for row in rows if row["loader_id"] is not None]
    assert set(known) == {None, 8}


SAMPLERS = """
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
data, other = TensorDataset(torch.randn(64, 4)), TensorDataset(torch.randn(24, 4))
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for sampler in (WeightedRandomSampler(torch.ones(2), 64), SubsetRandomSampler(range(len(other))), range(40), None):
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    for (x,) in loader:
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        [model(x) for (x,) in DataLoader(other, batch_size=8)]
    model.train()
"""


def test_what_a_sampler_can_draw_is_recorded_and_weights_of_two_classes_are_named(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SAMPLERS)
    forked.run([sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(script)], check=True)
    rows = [row for part in parts(run, "batches") for row in pq.read_table(part.path).to_pylist()]
    columns = ("sampler", "sampler_reach", "dataset_length")
    found = list(dict.fromkeys(tuple(r.get(c) for c in columns) for r in rows))
    assert found == [
        ("WeightedRandomSampler", 2, 64),
        ("SequentialSampler", 24, 24),
        ("SubsetRandomSampler", 24, 64),
        (None, None, None),
        ("SequentialSampler", 64, 64),
    ]
    with Trace(run) as trace:
        rule = find_rule("sampler-of-other-data")
        assert rule is not None
        assert [(r["severity"], r["value"]) for r in run_rule(trace, rule)] == [("error", 2), ("warning", 24)]


MADE_ANEW = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(6):
    for (x,) in DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=8):
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()
"""


def test_a_data_set_made_where_an_earlier_one_lay_gets_a_number_of_its_own(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(MADE_ANEW)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out", str(run), str(script)]
    forked.run(command, capture_output=True, text=True, check=True)

    rows = [row for part in parts(run, "batches") for row in pq.read_table(part.path).to_pylist()]
    assert sorted({(row["step"] // 2, row["dataset_id"]) for row in rows}) == [(epoch, epoch) for epoch in range(6)]


LEFT = """
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Stream(IterableDataset):
    def __len__(self):
        return 33

    def __iter__(self):
        yield from torch.randn(33, 4)


model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
stream, whole = DataLoader(Stream(), batch_size=4), DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
assert len(stream) == 9


def train(x):
    opt.zero_grad()
    model(x).square().mean().backward()
    opt.step()


for most in (3, 3, 3, 2, 99, 1):
    for i, x in enumerate(stream):
        if i == most:
            break
        train(x)
    for (x,) in whole:
        train(x)
"""


def test_passes_that_the_script_leaves_before_their_end_are_counted(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(LEFT)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out", str(run), str(script)]
    forked.run(command, capture_output=True, text=True, check=True)

    rows = [row for part in parts(run, "batches") for row in pq.read_table(part.path).to_pylist()]
    columns = ("loader_id", "epoch", "left_passes", "left_after", "loader_batches")
    found = sorted({tuple(r[c] for c in columns) for r in rows if r["loader_id"] is not None}, key=lambda r: r[:2])
    # a batch that is fetched before the loop is left was handed out
    assert found == [
        (0, 0, 0, None, 9),
        (0, 1, 1, 4, 9),
        (0, 2, 2, 4, 9),
        (0, 3, 3, 4, 9),
        (0, 4, 1, 3, 9),
        (0, 5, 0, None, 9),
        *[(1, epoch, 0, None, 2) for epoch in range(6)],
    ]
