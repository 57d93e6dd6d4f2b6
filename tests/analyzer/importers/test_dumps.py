"""Pickles and JSON that torch dumps: the allocator's memory, the ranks' calls. Nothing in them is ever run."""

import collections
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.pickles import read_plain_pickle


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.write_text, (self.path, "run"))


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [Hostile(tmp_path / "written")]}))
    with pytest.raises(ImportFileError, match=r"snapshot\.pickle.*could run code.*nothing was run"):
        import_files([path], tmp_path / "run", "0")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["snapshot.pickle"]


@pytest.mark.parametrize("size", [3, 20, 60])
def test_a_torn_pickle_is_one_clear_error(tmp_path, size):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [{"blocks": [1, 2, 3]}], "device_traces": []})[:size])
    with pytest.raises(ImportFileError, match=r"snapshot\.pickle"):
        import_files([path], tmp_path / "run", "0")
    assert not (tmp_path / "run").exists()


def test_plain_values_come_out_as_they_went_in(tmp_path):
    given = {"a": [1, 2.5, None, True, "x"], "b": collections.OrderedDict(c=(1, 2)), b"d": {3}}
    (tmp_path / "p").write_bytes(pickle.dumps(given, protocol=2))
    del given[b"d"]  # protocol 2 spells a set as a call of builtins.set, which is not let through
    with pytest.raises(ImportFileError):
        read_plain_pickle(tmp_path / "p")
    (tmp_path / "p").write_bytes(pickle.dumps(given, protocol=2))
    assert read_plain_pickle(tmp_path / "p") == given


FRAME = {"filename": "/home/me/train.py", "line": 12, "name": "forward"}
INSIDE = {"filename": "/venv/lib/torch/nn/modules/linear.py", "line": 3, "name": "forward"}


def snapshot(*actions: str) -> dict[str, Any]:
    """Two segments as `torch.cuda.memory._snapshot` has them."""
    return {
        "segments": [
            {
                "device": 0,
                "total_size": 700,
                "blocks": [
                    {"size": 100, "requested_size": 90, "state": "active_allocated", "frames": [INSIDE, FRAME]},
                    {"size": 200, "requested_size": 200, "state": "active_allocated", "frames": [FRAME]},
                    {"size": 400, "state": "inactive", "frames": []},
                ],
            },
            {"device": 1, "blocks": [{"size": 50, "state": "active_awaiting_free"}]},
        ],
        "device_traces": [
            [
                {"action": a, "addr": 8 * n, "size": n, "stream": 0, "time_us": 1000 + n, "frames": [INSIDE, FRAME]}
                for n, a in enumerate(actions)
            ],
            [],
        ],
    }


def test_a_snapshot_of_the_allocator_becomes_blocks_events_and_frames(tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot("alloc", "free_requested", "free_completed")))
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        blocks = trace.sql(
            "SELECT device, category, blocks, bytes, largest_bytes, place FROM memory_blocks ORDER BY bytes DESC"
        ).rows()
        events = trace.sql("SELECT action, addr, bytes, time_ns, frames_id FROM memory_events ORDER BY event_id").rows()
        frames = trace.sql("SELECT depth, file, line, function FROM frames ORDER BY depth").rows()
    assert blocks == [
        ("cuda:0", "free", 1, 400, 400, None),
        ("cuda:0", "allocated", 2, 300, 200, "/home/me/train.py:12 in forward"),
        ("cuda:1", "awaiting", 1, 50, 50, None),
    ]
    assert events == [
        ("alloc", 0, 0, 1_000_000, 0),
        ("free_requested", 8, 1, 1_001_000, 0),
        ("free_completed", 16, 2, 1_002_000, 0),
    ]
    assert [f[1:] for f in frames] == [tuple(INSIDE.values()), tuple(FRAME.values())]


def test_a_snapshot_that_a_cpu_profile_gives_is_read_too(tmp_path):
    import torch
    from torch.cuda._memory_viz import _profile_to_snapshot
    from torch.profiler import ProfilerActivity, profile

    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        model = torch.nn.Linear(10, 10)
        for _ in range(3):
            model(torch.randn(4, 10)).sum().backward()
    path = tmp_path / "snapshot.pickle"
    whole = _profile_to_snapshot(profiler)
    path.write_bytes(pickle.dumps(whole))
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT count(*) FROM memory_events").item() == sum(map(len, whole["device_traces"])) > 0
        blocks = trace.sql("SELECT coalesce(sum(blocks), 0) FROM memory_blocks").item()
        assert blocks == sum(len(s["blocks"]) for s in whole["segments"])


def dump(*calls: tuple[str, list[int]], state: str = "completed") -> dict[str, Any]:
    """One rank's dump."""
    done = state == "completed"
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [
            {
                "record_id": n,
                "process_group": ("0", "default_pg"),
                "collective_seq_id": n + 1,
                "profiling_name": f"nccl:{op}",
                "time_created_ns": 10**18 + n,
                "time_discovered_started_ns": 10**18 + n + 5 if done else None,
                "time_discovered_completed_ns": 10**18 + n + 25 if done else None,
                "input_sizes": [size],
                "input_dtypes": ["Float"],
                "state": state,
                "is_p2p": False,
                "frames": [INSIDE, FRAME],
            }
            for n, (op, size) in enumerate(calls)
        ],
    }


def imported(tmp_path: Path, form: str, *dumps: dict[str, Any]) -> Trace:
    paths = []
    for rank, one in enumerate(dumps):
        paths.append(tmp_path / f"nccl_trace_rank_{rank}{'.json' if form == 'json' else ''}")
        paths[-1].write_bytes(json.dumps(one).encode() if form == "json" else pickle.dumps(one))
    import_files(paths, tmp_path / "run", "0")
    return Trace(tmp_path / "run")


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_calls_that_ranks_do_not_agree_on_are_named(tmp_path, form):
    same = ("all_reduce", [4, 5])
    with imported(
        tmp_path, form, dump(same, same, ("_all_gather_base", [3])), dump(same, same, ("broadcast", [3]))
    ) as trace:
        rows = trace.sql("SELECT rank, number, op, numel, waited_ns, place FROM collectives ORDER BY ALL").rows()
        verdict = diagnose(trace)
    assert rows[0] == (0, 0, "all_reduce", 20, 20, "/home/me/train.py:12 in forward")
    assert [c.name for c in verdict.causes] == ["collective-mismatch"]
    assert "rank 0 all_gather_into_tensor of 3 float32" in verdict.causes[0].message
    assert "rank 1 broadcast of 3 float32" in verdict.causes[0].message
    assert verdict.run.world_size == 2


def test_calls_that_agree_are_no_fault_wherever_the_dumps_end(tmp_path):
    same = ("all_reduce", [4, 5])
    with imported(tmp_path, "pickle", dump(same, same, same), dump(same, same, state="scheduled")) as trace:
        verdict = diagnose(trace)
    assert verdict.causes == []
    assert verdict.verdict == "inconclusive"
