"""Snapshots of the CUDA allocator, emulated: what they say, and that reading one never runs what it holds."""

import os
import pickle
from pathlib import Path

import firstfault.recorder.cuda_memory
import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas import SchemaError
from firstfault.schemas.cuda_snapshot import block_groups, read_snapshot
from firstfault.schemas.layout import parts
from torch import nn

FRAMES = [
    {"filename": "/x/torch/nn/functional.py", "line": 9, "name": "linear"},
    {"filename": "/home/me/train.py", "line": 31, "name": "forward"},
    {"filename": "/home/me/train.py", "line": 80, "name": "main"},
]
SNAPSHOT = {
    "segments": [
        {
            "device": 0,
            "total_size": 8192,
            "blocks": [
                {"size": 2048, "state": "active_allocated", "frames": FRAMES},
                {"size": 1024, "state": "active_allocated", "frames": FRAMES},
                {"size": 512, "state": "active_awaiting_free", "frames": []},
                {"size": 4608, "state": "inactive", "frames": []},
            ],
        }
    ],
    "device_traces": [[]],
}


def test_blocks_are_summed_by_state_and_by_the_line_outside_torch() -> None:
    found = {(r["category"], r["place"]): (r["blocks"], r["bytes"], r["largest_bytes"]) for r in block_groups(SNAPSHOT)}

    assert found == {
        ("free", None): (1, 4608, 4608),
        ("allocated", "/home/me/train.py:31 in forward"): (2, 3072, 2048),
        ("awaiting", None): (1, 512, 512),
    }


def test_a_snapshot_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))

    assert read_snapshot(path) == SNAPSHOT


class Harm:
    """Would make a file when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.target),)


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    path.write_bytes(pickle.dumps({"segments": [Harm(tmp_path / "harmed")]}))

    with pytest.raises(SchemaError, match="mkdir, which no snapshot needs"):
        read_snapshot(path)
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    "content", [b"", pickle.dumps(SNAPSHOT)[:60], b"hello", pickle.dumps([1]), pickle.dumps({"a": 1})]
)
def test_what_is_no_snapshot_is_said_in_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "memory.pickle"
    path.write_bytes(content)

    with pytest.raises(SchemaError, match="is no memory snapshot"):
        read_snapshot(path)


def test_a_profile_of_the_cpu_gives_the_same_structure() -> None:
    """What torch itself writes, as far as a machine without CUDA can have it."""
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profile:
        kept = nn.Linear(64, 64)(torch.randn(8, 64))
    from torch.cuda._memory_viz import _profile_to_snapshot

    snapshot = pickle.loads(pickle.dumps(_profile_to_snapshot(profile)))  # noqa: S301 — made a moment ago

    assert kept.shape == (8, 64)
    assert sum(row["bytes"] for row in block_groups(snapshot)) > 0


def test_out_of_memory_leaves_a_snapshot_and_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = firstfault.recorder.cuda_memory.torch.cuda
    model = nn.Linear(4, 2)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    run = tmp_path / "run"

    def train() -> None:
        for i in range(4):
            opt.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            opt.step()
            if i == 2:
                monkeypatch.setattr(cuda, "is_initialized", lambda: True)
                monkeypatch.setattr(cuda.memory, "_snapshot", lambda: SNAPSHOT)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(torch.OutOfMemoryError), Recorder(run, model=model):
        train()
    monkeypatch.undo()

    found = [row for part in parts(run, "memory_blocks") for row in pq.read_table(part.path).to_pylist()]
    assert {row["trigger"] for row in found} == {"oom"}
    assert [(r["category"], r["place"]) for r in found if r["source"] == "cuda"][1] == (
        "allocated",
        "/home/me/train.py:31 in forward",
    )
    assert {"parameter", "gradient"} <= {row["category"] for row in found if row["source"] == "python"}
    (file,) = (run / "native").glob("*.pickle")
    assert read_snapshot(file) == SNAPSHOT
