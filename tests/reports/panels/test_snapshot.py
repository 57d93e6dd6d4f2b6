"""The page of a memory snapshot: who holds how much, and the memory in use over the history."""

import pickle
from pathlib import Path

from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.importers import import_files
from firstfault.reports.page.data import reduce_page

FRAME = [{"filename": "/me/<b>train</b>.py", "line": 3, "name": "main"}]


def test_the_page_stacks_memory_in_use_by_line(tmp_path: Path) -> None:
    events = [{"action": "alloc", "addr": n, "size": 10**9, "time_us": n, "frames": FRAME} for n in range(1, 5)]
    events += [{"action": "free_completed", "addr": n, "size": 10**9, "time_us": 9 + n, "frames": []} for n in (1, 2)]
    block = {"size": 10**9, "state": "active_allocated", "frames": FRAME}
    segments = [{"device": 0, "address": n, "total_size": 10**9, "blocks": [block]} for n in (3, 4)]
    (tmp_path / "s.pickle").write_bytes(pickle.dumps({"segments": segments, "device_traces": [events]}))
    import_files([tmp_path / "s.pickle"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        page = reduce_page(trace, diagnose(trace))
    panel = next(p for p in page.panels if p.key == "snapshot")
    facts = dict(panel.facts)
    assert (facts["In use"], facts["In use at most"], facts["Held by the allocator"]) == ("2 GB", "4 GB", "2 GB")
    grid = dict(panel.grids)["Who holds memory, by the line that allocated it"]
    assert grid.rows == [["/me/<b>train</b>.py:3 in main", "other", "cuda:0", "2 GB", "2", "1 GB"]]
    assert panel.chart is not None
    drawn = next(rows for rows in panel.chart["datasets"].values())
    assert [row["high"] for row in drawn] == [1.0, 2.0, 3.0, 4.0, 3.0, 2.0]


def test_a_run_without_a_snapshot_has_no_such_panel(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n2,1\n")
    import_files([tmp_path / "a.csv"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert all(p.key != "snapshot" for p in reduce_page(trace, diagnose(trace)).panels)
