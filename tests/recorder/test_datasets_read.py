"""What reading does to a dataset, and what workers draw: told by events, with the training as it is without the recorder."""

import json
import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.schemas.files.layout import parts

SCRIPT = """
import random
import sys
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

KIND = sys.argv[1]


class Kept(Dataset):
    def __init__(self):
        self.entries = [{"point": torch.arange(1.0, 4.0) + i} for i in range(16)]
        self.generator = random.Random(0)
        self.read = torch.zeros(16, 2)

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, i):
        point = self.entries[i]["point"]
        self.read[i] += 1
        if KIND == "copies":
            point = point.clone()
        if KIND == "once" and self.read[i, 0] > 1:
            return point
        point *= 0.5
        if KIND == "seeds at the first sample" and get_worker_info() is not None:
            self.generator.seed(get_worker_info().seed + int(self.read.sum() == 1))
        return point + 0.1 * self.generator.random() if KIND != "plain" else point


def seeded(_):
    info = get_worker_info()
    info.dataset.generator = random.Random(info.seed)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    init = seeded if KIND == "seeds" else None
    loader = DataLoader(Kept(), 4, shuffle=True, num_workers=int(sys.argv[2]), worker_init_fn=init)
    for _ in range(3):
        for x in loader:
            opt.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            opt.step()
            print(loss.item().hex())
"""


def events_of(tmp_path: Path, kind: str, workers: int) -> list[dict]:
    """Details of the events of a recorded run, which prints what the plain one does."""
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    arguments = [str(script), kind, str(workers)]
    plain = forked.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), *arguments]
    recorded = forked.run(command, capture_output=True, text=True, check=True)
    assert recorded.stdout == plain.stdout
    assert recorded.stderr == plain.stderr
    rows = [row for part in parts(run, "events") for row in pq.read_table(part.path).to_pylist()]
    assert not [row for row in rows if row["event"] == "recorder-fault"]
    wanted = {"dataset-changed", "worker-randomness"}
    return [json.loads(row["detail"]) for row in rows if row["event"] in wanted]


def test_entries_that_each_read_changes_are_told_in_every_pass(tmp_path: Path) -> None:
    changed = [e for e in events_of(tmp_path, "plain", 0) if e["path"].startswith("entries")]

    assert [(e["epoch"], e["path"], e["samples"], e["changed"], e["read"]) for e in changed] == [
        (epoch, "entries[i].point", 4, 4, 4) for epoch in range(3)
    ]
    assert all(e["after"] == pytest.approx(e["before"] / 2) for e in changed)


@pytest.mark.parametrize(("kind", "passes"), [("copies", []), ("once", [0])])
def test_what_is_copied_or_changed_once_is_not_told_again(tmp_path: Path, kind: str, passes: list[int]) -> None:
    changed = [e for e in events_of(tmp_path, kind, 0) if e["path"].startswith("entries")]

    assert [e["epoch"] for e in changed] == passes


def test_workers_with_copies_of_a_generator_are_in_the_same_states(tmp_path: Path) -> None:
    found = events_of(tmp_path, "noise", 2)

    assert {(e["epoch"], e["worker"]) for e in found} == {(epoch, worker) for epoch in range(3) for worker in range(2)}
    assert len({(e["generator"], e["before"], e["after"]) for e in found}) == 1


@pytest.mark.parametrize("kind", ["seeds", "seeds at the first sample"])
def test_workers_that_seed_it_are_in_different_states(tmp_path: Path, kind: str) -> None:
    found = events_of(tmp_path, kind, 2)

    assert len(found) == 6
    assert len({e["after"] for e in found}) == 6
