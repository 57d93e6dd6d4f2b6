"""Dumps of the Flight Recorder of many ranks: who waits, who never came, and what may not be compared."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.importers import import_files
from firstfault.reports.panels import reduce_panels
from firstfault.reports.sections.findings import reduce_headline

START = 10**18
LINE = {"filename": "/job/train.py", "line": 30, "name": "step"}
OTHER = {"filename": "/job/train.py", "line": 41, "name": "evaluate"}


def call(
    number: int, *, op: str = "all_reduce", group: tuple[str, str] = ("0", "default_pg"), **more: Any
) -> dict[str, Any]:
    """One entry as NCCL's recorder writes it; ``number`` counts from 1."""
    entry = {
        "record_id": number - 1, "pg_id": int(group[0]), "process_group": group, "collective_seq_id": number, "p2p_seq_id": 0,
        "profiling_name": f"nccl:{op}", "time_created_ns": START + number * 10**6, "input_sizes": [[8, 4]],
        "input_dtypes": ["Float"], "output_sizes": [[8, 4]], "output_dtypes": ["Float"], "state": "completed",
        "time_discovered_started_ns": None, "time_discovered_completed_ns": START + number * 10**6 + 500, "retired": True,
        "timeout_ms": 600_000, "is_p2p": False, "frames": [LINE],
    }  # fmt: skip
    if more.get("state", "completed") != "completed":
        entry |= {"time_discovered_completed_ns": None, "retired": False}
    return entry | more


def dump(
    entries: list[dict[str, Any]], ranks: list[int], *, groups: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(ranks)}} | (groups or {})
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries} | more


def judged(tmp_path: Path, dumps: dict[int, dict[str, Any]], *, as_json: bool = False) -> Trace:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank, one in dumps.items():
        raw = json.dumps(one).encode() if as_json else pickle.dumps(one)
        (folder / f"nccl_trace_rank_{rank}{'.json' if as_json else ''}").write_bytes(raw)
    import_files([folder], tmp_path / "run", "0")
    return Trace(tmp_path / "run")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_rank_that_never_joined_is_named_with_both_lines(tmp_path, as_json):
    ranks = list(range(4))
    waiting = [call(1), call(2), call(3, state="started", retired=True)]
    dumps = {rank: dump(waiting, ranks) for rank in ranks if rank != 2}
    dumps[2] = dump([call(1), call(2, frames=[OTHER])], ranks)
    with judged(tmp_path, dumps, as_json=as_json) as trace:
        verdict = diagnose(trace)
    (cause,) = verdict.causes
    assert (cause.name, cause.severity, cause.rank, cause.step) == ("collective-not-joined", "error", 2, None)
    assert (
        "Ranks 0-1, 3 waited in call 2 of group default, all_reduce of 32 float32 at /job/train.py:30 in step"
        in cause.message
    )
    assert (
        "rank 2 had not made it: last made call 1 of group default, all_reduce at /job/train.py:41 in evaluate"
        in cause.message
    )
    assert (verdict.verdict, verdict.run.status, verdict.first_anomaly) == ("anomalous", "hang", None)


def test_dumps_of_a_run_that_goes_on_are_no_fault(tmp_path):
    dumps = {0: dump([call(1), call(2, state="scheduled")], [0, 1]), 1: dump([call(1)], [0, 1])}
    with judged(tmp_path, dumps) as trace:
        verdict = diagnose(trace)
    assert [(c.name, c.severity) for c in verdict.causes] == [("collective-not-joined", "warning")]
    assert (verdict.verdict, verdict.run.status) == ("inconclusive", "completed")


def test_groups_of_one_description_are_not_compared(tmp_path):
    groups = {str(n): {"name": str(n), "desc": "mesh_tp", "ranks": str([2 * n - 2, 2 * n - 1])} for n in (1, 2)}
    dumps = {
        rank: dump(
            [call(1, op="broadcast" if rank < 2 else "all_reduce", group=(str(1 + rank // 2), "mesh_tp"))],
            [0, 1, 2, 3],
            groups={str(1 + rank // 2): groups[str(1 + rank // 2)]},
        )
        for rank in range(4)
    }
    with judged(tmp_path, dumps) as trace:
        assert diagnose(trace).causes == []
        found = trace.sql('SELECT DISTINCT "group" FROM collectives ORDER BY ALL')["group"].to_list()
    assert found == ["mesh_tp (1) of ranks 0-1", "mesh_tp (2) of ranks 2-3"]


def test_parts_of_a_split_group_that_share_a_name_are_told_apart(tmp_path):
    dumps = {
        rank: dump(
            [call(1, op="broadcast" if rank < 2 else "all_reduce", group=("7", "half"))],
            [0, 1, 2, 3],
            groups={"7": {"name": "7", "desc": "half", "ranks": "[0, 1]" if rank < 2 else "[2, 3]"}},
        )
        for rank in range(4)
    }
    with judged(tmp_path, dumps) as trace:
        assert diagnose(trace).causes == []


def test_a_send_and_its_receive_are_no_mismatch_and_know_their_peers(tmp_path):
    pair = {0: "send 0->1", 1: "recv 1<-0"}
    dumps = {rank: dump([call(1), call(0, op=op, is_p2p=True, p2p_seq_id=1)], [0, 1]) for rank, op in pair.items()}
    with judged(tmp_path, dumps) as trace:
        assert diagnose(trace).causes == []
        rows = trace.sql("SELECT rank, op, peer FROM collectives WHERE peer IS NOT NULL ORDER BY rank").rows()
    assert rows == [(0, "send", 1), (1, "recv", 0)]


def test_a_dump_without_entries_is_that_of_a_rank_without_a_call(tmp_path):
    silent = dump([], [0, 1])
    del silent["entries"]
    with judged(
        tmp_path, {0: dump([call(1, state="started", retired=True)], [0, 1]), 1: silent}, as_json=True
    ) as trace:
        (cause,) = diagnose(trace).causes
    assert "rank 1 had made no call at all" in cause.message


def test_what_fell_out_of_the_ring_is_told_by_the_status_of_the_group(tmp_path):
    ring = [call(9, group=("1", "other"), record_id=5000)]
    groups = {"1": {"name": "1", "desc": "other", "ranks": "[0, 1]"}}
    late = dump(ring, [0, 1], groups=groups)
    waiting = dump([call(1, state="started", retired=True)], [0, 1])
    with judged(tmp_path, {0: waiting, 1: late}) as trace:
        named = [c.name for c in diagnose(trace).causes]
    assert named == ["hang"]  # whether rank 1 made the call is not known


def test_a_hundred_dumps_are_one_short_sentence(tmp_path):
    ranks = list(range(100))
    waiting = dump([call(1), call(2, state="started", retired=True)], ranks)
    dumps = {rank: waiting for rank in ranks if rank not in (17, 80)}
    dumps[17] = dump([call(1), call(2, op="broadcast", frames=[OTHER], state="started")], ranks)
    with judged(tmp_path, dumps) as trace:
        verdict = diagnose(trace)
        panels = {panel.key: panel for panel in reduce_panels(trace, 0, None, None)}
    cause = verdict.causes[0]
    assert cause.name == "collective-mismatch"
    assert "ranks 0-16, 18-79, 81-99 all_reduce of 32 float32 at /job/train.py:30 in step" in cause.message
    assert "rank 17 broadcast of 32 float32 at /job/train.py:41 in evaluate" in cause.message
    assert len(cause.message) < 500
    assert reduce_headline(verdict).title == "Collective mismatch"
    assert dict(panels["calls"].facts)["Dumps"] == "99"


def test_dumps_in_which_all_is_well_have_a_headline_that_says_so(tmp_path):
    dumps = {rank: dump([call(1), call(2)], [0, 1]) for rank in range(2)}
    with judged(tmp_path, dumps) as trace:
        headline = reduce_headline(diagnose(trace))
    assert headline.title == "Nothing found in the calls of 2 ranks"
    assert headline.message.startswith("The dumps of ranks 0-1 hold 4 calls in 1 process groups; 0 have not ended")


@pytest.mark.suite
@pytest.mark.slow
def test_real_dumps_of_four_processes_name_the_rank_that_stayed_away(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        """
import datetime, os, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, out):
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    wait = datetime.timedelta(seconds=6)
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=4, timeout=wait)
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    try:
        if rank != 2:
            dist.all_reduce(torch.ones(4))
        else:
            time.sleep(9)
    except RuntimeError:
        pass
    with open(f"{out}/nccl_trace_rank_{rank}", "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace(True, True, False))
    os._exit(0)

if __name__ == "__main__":
    mp.start_processes(work, (sys.argv[1],), nprocs=4, start_method="fork")
"""
    )
    import subprocess
    import sys

    out = tmp_path / "dumps"
    out.mkdir()
    subprocess.run([sys.executable, str(script), str(out)], check=True, capture_output=True, timeout=120)
    (out / "store").unlink()
    import_files([out], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        (cause,) = diagnose(trace).causes
    assert (cause.name, cause.rank) == ("collective-not-joined", 2)
    assert "Ranks 0-1, 3 had last made call 3" in cause.message
