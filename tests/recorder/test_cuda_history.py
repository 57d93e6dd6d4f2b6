"""Snapshots of the CUDA allocator, emulated: what they say, and what out of memory leaves behind."""

import pickle
from pathlib import Path

import firstfault.recorder.memory.cuda_history
import pyarrow.parquet as pq
import pytest
import torch
from firstfault.analyzer.importers.pickles import read_plain_pickle
from firstfault.recorder import Recorder
from firstfault.schemas.files.cuda_snapshot import block_groups
from firstfault.schemas.files.layout import parts
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
    found = {
        (r["category"], r["place"]): (r["blocks"], r["bytes"], r["largest_bytes"])
        for r in block_groups(SNAPSHOT["segments"])
    }

    assert found == {
        ("free", None): (1, 4608, 4608),
        ("allocated", "/home/me/train.py:31 in forward"): (2, 3072, 2048),
        ("awaiting", None): (1, 512, 512),
    }


@pytest.mark.parametrize("segments", [None, 7, [None], [{"blocks": [3]}], [{"device": "x", "blocks": [{"size": "y"}]}]])
def test_a_broken_snapshot_does_no_harm(segments: object) -> None:
    assert sum(row["bytes"] for row in block_groups(segments)) == 0


def test_a_profile_of_the_cpu_gives_the_same_structure() -> None:
    """What torch itself writes, as far as a machine without CUDA can have it."""
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as profile:
        kept = nn.Linear(64, 64)(torch.randn(8, 64))
    from torch.cuda._memory_viz import _profile_to_snapshot

    snapshot = pickle.loads(pickle.dumps(_profile_to_snapshot(profile)))  # noqa: S301 — made a moment ago

    assert kept.shape == (8, 64)
    assert sum(row["bytes"] for row in block_groups(snapshot["segments"])) > 0


def test_out_of_memory_leaves_a_snapshot_and_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = firstfault.recorder.memory.cuda_history.torch.cuda
    model = nn.Linear(1024, 512)  # larger than what other tests have left alive
    opt = torch.optim.SGD(model.parameters(), 0.1)
    run = tmp_path / "run"

    def train() -> None:
        for i in range(4):
            opt.zero_grad()
            model(torch.randn(3, 1024)).sum().backward()
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
    assert read_plain_pickle(file) == SNAPSHOT
