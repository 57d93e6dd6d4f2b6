"""Attributes that change in the main process while workers live on, with real workers."""

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

EPOCH = 0


class Jitter:
    def __init__(self) -> None:
        self.strength = 0

    def __call__(self, x: Tensor) -> Tensor:
        return self.moved(x)

    def moved(self, x: Tensor) -> Tensor:
        return x + self.strength


class Mirrored:
    def __call__(self, x: Tensor) -> Tensor:
        return x.flip(0)


class Points(Dataset[Tensor]):
    def __init__(self) -> None:
        self.x = torch.randn(16, 3)
        self.epoch = self.unread = self.read = 0
        self.shared_epoch = multiprocessing.Value("i", 0)
        self.shared_level = torch.zeros(1).share_memory_()
        self.cache: dict[int, Tensor] = {}
        self.order = list(range(16))
        self.transform: Callable[[Tensor], Tensor] = Jitter()
        self.config = {"noise": 0, "name": "points"}

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Tensor:
        self.read += 1
        x = self.transform(self.kept(self.order[i])) + self.config["noise"]
        return x + self.seed + EPOCH + self.shared_epoch.value + self.shared_level  # pyright: ignore[reportAttributeAccessIssue]

    def kept(self, i: int) -> Tensor:
        if i not in self.cache:
            self.cache[i] = self.x[i]
        return self.cache[i]

    @property
    def seed(self) -> int:
        return 7 + self.epoch


class Mixed:
    def __init__(self) -> None:
        self.enabled = 0

    def __call__(self, samples: list[Tensor]) -> Tensor:
        x = torch.stack(samples)
        return x.flip(0) if self.enabled else x


def change(kind: str, data: Points, mixed: Mixed, epoch: int) -> None:
    global EPOCH  # noqa: PLW0603 — what scripts do
    if kind in {"epoch", "in a subset", "new workers", "new loaders"}:
        data.epoch = epoch
    elif kind == "shared":
        data.shared_epoch.value = epoch  # pyright: ignore[reportAttributeAccessIssue]
        data.shared_level.fill_(epoch)
    elif kind == "transform":
        data.transform.strength = epoch  # pyright: ignore[reportAttributeAccessIssue]
    elif kind == "another transform" and epoch:
        data.transform = Mirrored()
    elif kind == "configuration":
        data.config["noise"] = epoch
    elif kind == "order":
        data.order = data.order[1:] + data.order[:1]
    elif kind == "collate":
        mixed.enabled = epoch
    elif kind == "global":
        EPOCH = epoch
    elif kind == "of the main process alone":
        data.unread = epoch
        data[epoch]


def told(kind: str, run: Path) -> list[dict]:
    """Events of a run over three epochs, each with a change before it."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    points, mixed = Points(), Mixed()
    halves = [Subset(points, range(8)), Subset(points, range(8, 16))]
    data = ConcatDataset(halves) if kind == "in a subset" else points
    with Recorder(run, model=model):
        loader = DataLoader(data, 8, num_workers=1, persistent_workers=kind != "new workers", collate_fn=mixed)
        for epoch in range(3):
            change(kind, points, mixed, epoch)
            if kind == "new loaders":
                loader = DataLoader(data, 8, num_workers=1, persistent_workers=True, collate_fn=mixed)
            for x in loader:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                if kind == "taken back":
                    points.epoch = 5
            points.epoch = 0 if kind == "taken back" else points.epoch
    rows = [row for part in parts(run, "events") for row in pq.read_table(part.path).to_pylist()]
    assert not [row for row in rows if row["event"] == "recorder-fault"]
    return [{"step": r["step"], **json.loads(r["detail"])} for r in rows if r["event"] == "stale-worker-state"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("epoch", "dataset.epoch"),
        ("in a subset", "dataset.datasets[0].dataset.epoch"),
        ("transform", "dataset.transform.strength"),
        ("configuration", "dataset.config['noise']"),
        ("collate", "collate_fn.enabled"),
        ("global", f"global variable EPOCH of {__name__}"),
    ],
)
def test_a_number_that_workers_read_is_told_with_its_values(kind: str, path: str, tmp_path: Path) -> None:
    found = told(kind, tmp_path / "run")

    assert [(e["step"], e["path"], e["before"], e["after"], e["epoch"]) for e in found] == [(2, path, 0, 1, 1)]


@pytest.mark.parametrize(
    ("kind", "path", "what"),
    [("another transform", "dataset.transform", "object"), ("order", "dataset.order", "content")],
)
def test_of_anything_else_no_value_is_told(kind: str, path: str, what: str, tmp_path: Path) -> None:
    found = told(kind, tmp_path / "run")

    assert [(e["step"], e["path"], e["kind"]) for e in found] == [(2, path, what)]
    assert "before" not in found[0]


@pytest.mark.parametrize(
    "kind", ["nothing", "shared", "new workers", "new loaders", "of the main process alone", "taken back"]
)
def test_what_reaches_workers_or_does_not_concern_them_is_no_event(kind: str, tmp_path: Path) -> None:
    assert told(kind, tmp_path / "run") == []
