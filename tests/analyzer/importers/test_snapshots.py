"""A snapshot of the allocator, alone, tells what is held, by whom, how it is cut up, and what has grown."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.schemas.files.cuda_snapshot import purpose_of

TORCH = "/venv/lib/python3.11/site-packages/torch/"
MB = 1 << 20


def stack(*frames: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in frames]


FORWARD = stack((TORCH + "nn/modules/linear.py", 125, "forward"), ("/me/model.py", 40, "forward"))
WEIGHTS = stack((TORCH + "nn/modules/module.py", 900, "_apply"), ("/me/train.py", 8, "build"))
STATE = stack((TORCH + "optim/adamw.py", 130, "_init_group"), ("/me/train.py", 30, "main"))
BACKWARD = stack((TORCH + "autograd/graph.py", 820, "_engine_run_backward"), ("/me/train.py", 28, "main"))
KEPT = stack(("/me/train.py", 33, "main"))


class Allocator:
    """Makes the history and the segments that torch would write; every block has a segment of its own with 10 MB to spare."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, Any]] = {}

    def alloc(self, mb: int, frames: Any) -> int:
        addr = (len(self.events) + 1) << 32
        self.events.append({"action": "alloc", "addr": addr, "size": mb * MB, "time_us": 10**15, "frames": frames})
        self.live[addr] = (mb * MB, frames)
        return addr

    def free(self, addr: int) -> None:
        size, _ = self.live.pop(addr)
        for action in ("free_requested", "free_completed"):
            self.events.append({"action": action, "addr": addr, "size": size, "time_us": 10**15, "frames": BACKWARD})

    def train(self, steps: int, *, leak: bool) -> None:
        for _ in range(6):
            self.alloc(100, WEIGHTS)
        for step in range(steps):
            kept = [self.alloc(80, FORWARD) for _ in range(6)]
            for addr in reversed(kept):
                self.free(addr)
            if step == 0:
                self.alloc(400, STATE)
            if leak:
                self.alloc(50, KEPT)

    def snapshot(self) -> dict[str, Any]:
        segments = [
            {
                "device": 0, "address": addr, "total_size": size + 10 * MB, "segment_type": "large",
                "blocks": [
                    {"size": size, "requested_size": size - 100, "state": "active_allocated", "frames": frames},
                    {"size": 10 * MB, "state": "inactive", "frames": []},
                ],
            }
            for addr, (size, frames) in self.live.items()
        ]  # fmt: skip
        segments.append({"device": 0, "address": 5, "total_size": MB, "blocks": [{"size": MB, "state": "inactive"}]})
        return {"segments": segments, "device_traces": [self.events]}


def imported(tmp_path: Path, *snapshots: tuple[str, dict[str, Any]]) -> Trace:
    paths = []
    for name, snapshot in snapshots:
        paths.append(tmp_path / name)
        paths[-1].write_bytes(pickle.dumps(snapshot))
    import_files(paths, tmp_path / "run", "0")
    return Trace(tmp_path / "run")


@pytest.mark.parametrize(
    ("frames", "purpose"),
    [(FORWARD, "activation"), (WEIGHTS, "parameter"), (STATE, "optimizer_state"), (BACKWARD, "gradient"), (KEPT, "other")],
)  # fmt: skip
def test_a_stack_tells_what_its_memory_is_for(frames, purpose):
    assert purpose_of(frames) == purpose


def test_what_is_held_is_told_by_device_line_and_purpose(tmp_path):
    allocator = Allocator()
    allocator.train(5, leak=False)
    with imported(tmp_path, ("snapshot.pickle", allocator.snapshot())) as trace:
        device = trace.sql("SELECT * FROM device_memory").row(0, named=True)
        assert device["reserved_bytes"] == (6 * 110 + 410 + 1) * MB
        assert device["allocated_bytes"] == 1000 * MB
        assert device["peak_bytes"] == (600 + 480 + 400) * MB
        assert (device["free_bytes"], device["split_bytes"]) == (71 * MB, 70 * MB)
        assert (device["largest_free_bytes"], device["rounding_bytes"]) == (10 * MB, 700)
        held = trace.sql(
            "SELECT place, purpose, bytes FROM memory_blocks WHERE category = 'allocated' ORDER BY bytes"
        ).rows()
        assert held == [
            ("/me/train.py:30 in main", "optimizer_state", 400 * MB),
            ("/me/train.py:8 in build", "parameter", 600 * MB),
        ]
        verdict = diagnose(trace)
    assert (verdict.verdict, verdict.causes) == ("inconclusive", [])
    said = " ".join(n.why for n in verdict.not_evaluable)
    assert "the allocator holds 1.12 GB of cuda:0 (rank 0), 1.05 GB in use, at most 1.55 GB" in said
    assert "most is held by /me/train.py:8 in build, 629.1 MB" in said


def test_blocks_that_stay_from_every_step_are_named_with_their_line(tmp_path):
    allocator = Allocator()
    allocator.train(12, leak=True)
    with imported(tmp_path, ("snapshot.pickle", allocator.snapshot())) as trace:
        verdict = diagnose(trace)
    assert [c.name for c in verdict.causes] == ["device-memory-growth"]
    assert "/me/train.py:33 in main allocates blocks of 52.4 MB" in verdict.causes[0].message


def test_a_request_that_found_no_memory_is_out_of_memory(tmp_path):
    allocator = Allocator()
    allocator.train(3, leak=False)
    allocator.events.append(
        {"action": "oom", "size": 5000 * MB, "device_free": MB, "time_us": 10**15, "frames": FORWARD}
    )
    with imported(tmp_path, ("snapshot.pickle", allocator.snapshot())) as trace:
        verdict = diagnose(trace)
    assert verdict.verdict == "anomalous"
    assert [c.name for c in verdict.causes] == ["oom-device"]
    assert "/me/train.py:8 in build 629.1 MB" in verdict.causes[0].message


@pytest.mark.parametrize("names", [("a_rank3.pickle", "a_rank5.pickle"), ("one.pickle", "two.pickle")])
def test_two_ranks_stay_two(tmp_path, names):
    allocator = Allocator()
    allocator.train(2, leak=False)
    with imported(tmp_path, *((name, allocator.snapshot()) for name in names)) as trace:
        ranks = trace.sql("SELECT rank, allocated_bytes FROM device_memory ORDER BY rank").rows()
    assert ranks == [(3 if "3" in names[0] else 0, 1000 * MB), (5 if "5" in names[1] else 1, 1000 * MB)]


def test_a_snapshot_of_a_device_that_was_not_used_says_so(tmp_path):
    with pytest.raises(ImportFileError, match="neither segments nor a history"):
        imported(tmp_path, ("snapshot.pickle", {"segments": [], "device_traces": [[]]}))


def test_a_stack_of_cpp_alone_names_no_line(tmp_path):
    allocator = Allocator()
    allocator.train(2, leak=False)
    snapshot = allocator.snapshot()
    cpp = [
        {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
        {"filename": "engine.cpp", "line": 0, "name": "torch::autograd::Engine::thread_init()"},
        {"filename": "thread48.o", "line": 0, "name": "execute_native_thread_routine"},
    ]
    blocks = [{"size": 900 * MB, "requested_size": 900 * MB, "state": "active_allocated", "frames": cpp}]
    snapshot["segments"].append({"device": 0, "address": 7, "total_size": 900 * MB, "blocks": blocks})
    with imported(tmp_path, ("snapshot.pickle", snapshot)) as trace:
        said = " ".join(n.why for n in diagnose(trace).not_evaluable)
    assert "most is held by /me/train.py:8 in build, 629.1 MB; the stacks of 943.7 MB show no line of a script" in said
