"""A folder that may not grow beyond a limit keeps full detail where something happened, and says what it gave up."""

import signal
import sys
from pathlib import Path
from typing import Any

import forked
import pyarrow as pa
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.storage.compaction import compact
from firstfault.recorder.storage.journal import JournalWriter, segment_bytes
from firstfault.recorder.storage.retention import Retention, folder_bytes
from firstfault.recorder.storage.run_folder import create_run
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import SUPERVISOR_RANK

STEPS, TENSORS, KEEP = 4000, 20, 25


def fill(out: Path, *, spike: int | None = None, event: int | None = None, segment: int = 1000) -> Path:
    """A recorded run of STEPS steps in parts of ``segment`` steps each."""
    run = create_run(out, argv=["x.py"], script="x.py")
    writer = JournalWriter(run, 0)
    for first in range(0, STEPS, segment):
        steps = range(first, first + segment)
        rows: dict[str, list[dict[str, Any]]] = {
            "tensors": [
                {"rank": 0, "tensor_id": i, "tensor_name": f"w{i}", "kind": "parameter"} for i in range(TENSORS)
            ],
            "tensor_stats": [
                {
                    "rank": 0,
                    "step": s,
                    "microbatch": 0,
                    "seq": i,
                    "phase": 4,
                    "tensor_id": i,
                    "numel": 4,
                    "nan_count": 0,
                }
                | {"inf_count": 0, "min": -1.0 / (s + 1), "max": 1.0, "sum": hash((s, i)) / 1e18, "sum_sq": 2.0 + s}
                for s in steps
                for i in range(TENSORS)
            ],
            "events": [{"rank": 0, "time_ns": 1, "step": s, "event": "odd"} for s in steps if s == event],
            "steps": [
                {"rank": 0, "step": s, "completed": True, "stepped": True, "detail": ""}
                | {"loss": 50.0 if s == spike else 1.0, "grad_norm": 1.0}
                for s in steps
            ],
        }
        writer.append({t: pa.RecordBatch.from_pylist(r, TABLES[t].schema) for t, r in rows.items() if r})
        writer.rotate()
    writer.close()
    compact(run, finished=True)
    return run


def enforce(run: Path, share: float, said: list[str] | None = None) -> int:
    """Thin to a share of the present size; what it has to say goes into ``said``."""
    journal = JournalWriter(run, SUPERVISOR_RANK)
    limit = int(share * folder_bytes(run))
    removed = Retention(run, limit, KEEP, lambda: journal, (said if said is not None else []).append).enforce()
    journal.close()
    return removed


def measured(run: Path) -> list[int]:
    """Steps that have all their rows; none has some."""
    with Trace(run) as trace:
        rows = trace.sql("SELECT step, count(*) AS n FROM tensor_stats GROUP BY step ORDER BY step").rows()
        left = trace.sql("SELECT step FROM step_detail WHERE NOT list_contains(left_out, 'parameters') ORDER BY step")
    assert {n for _, n in rows} == {TENSORS}
    assert [s for s, _ in rows] == left["step"].to_list(), "the trace does not say what was removed"
    return [s for s, _ in rows]


def test_within_its_limit_nothing_is_touched(tmp_path: Path) -> None:
    run = fill(tmp_path / "run")
    assert enforce(run, 1.01) == 0
    assert measured(run) == list(range(STEPS))


def test_the_oldest_detail_goes_first_and_only_as_much_as_is_needed(tmp_path: Path) -> None:
    run = fill(tmp_path / "run")
    before = folder_bytes(run)
    enforce(run, 0.85)
    assert folder_bytes(run) <= 0.85 * before
    kept = measured(run)
    assert [s for s in kept if s >= 3000] == list(range(3000, STEPS))
    assert set(range(KEEP)) <= set(kept)
    assert [s for s in kept if KEEP <= s < 900] == list(range(32, 900, 8))


def test_around_a_spike_and_an_event_and_at_both_ends_everything_stays(tmp_path: Path) -> None:
    run = fill(tmp_path / "run", spike=1500, event=2600)
    said: list[str] = []
    enforce(run, 0.05, said)
    whole = set(range(KEEP)) | set(range(STEPS - KEEP, STEPS))
    whole |= set(range(1500 - KEEP, 1500 + KEEP + 1)) | set(range(2600 - KEEP, 2600 + KEEP + 1))
    assert set(measured(run)) == whole  # under so hard a limit nothing else stays
    assert len(said) == 1
    assert "beyond the limit" in said[0]
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) FROM steps").item() == STEPS
        assert trace.sql("SELECT count(*) FROM events WHERE event = 'detail-thinned'").item() > 0


def test_thinned_once_it_can_be_thinned_further_and_what_is_kept_was_always_kept(tmp_path: Path) -> None:
    run = fill(tmp_path / "run")
    kept = set(range(STEPS))
    for share in (0.7, 0.7, 0.7, 0.7):
        enforce(run, share)
        now = set(measured(run))
        assert now < kept
        kept = now


def test_the_verdict_says_what_was_removed(tmp_path: Path) -> None:
    run = fill(tmp_path / "run")
    removed = enforce(run, 0.5)
    with Trace(run) as trace:
        why = [n.why for n in diagnose(trace).not_evaluable if n.name == "recording-incomplete"]
    assert any(w.startswith(f"{removed} rows of tensor_stats of steps {KEEP} to ") for w in why)


DYING = """
import os, signal, sys
from pathlib import Path
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.storage.retention import Retention, folder_bytes
run, left = Path(sys.argv[1]), int(sys.argv[2])

def dying(original):
    def call(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return original(*args, **kwargs)
    return call

for name in ("fsync", "rename"):
    setattr(os, name, dying(getattr(os, name)))
journal = JournalWriter(run, -1)
Retention(run, folder_bytes(run) // 2, 25, lambda: journal, print).enforce()
"""


@pytest.mark.slow
def test_cut_off_anywhere_nothing_is_missing_that_the_trace_does_not_say(tmp_path: Path) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text(DYING)
    for survived in range(0, 40, 3):
        run = fill(tmp_path / str(survived))
        done = forked.run([sys.executable, dying, run, str(survived)])
        with Trace(run) as trace:
            there = set(trace.sql("SELECT DISTINCT step FROM tensor_stats")["step"].to_list())
            said = trace.sql("SELECT step FROM step_detail WHERE NOT list_contains(left_out, 'parameters')")
            assert set(said["step"].to_list()) <= there
            twice = "SELECT step FROM tensor_stats GROUP BY step, seq HAVING count(*) > 1"
            assert trace.sql(twice).is_empty()
        if done.returncode == 0:
            assert survived > 6, "the calls were not intercepted"
            return
        assert done.returncode == -signal.SIGKILL
    pytest.fail("it never came to its end")


def test_segments_are_small_where_there_is_little_room() -> None:
    assert segment_bytes(None, 8) == 64 * 2**20
    assert segment_bytes(160 * 2**20, 2) == 5 * 2**20
    assert segment_bytes(2**20, 64) == 2**20


SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(30)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(500):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_recorded_run_ends_within_its_limit(bench: Any) -> None:
    bench.write(SCRIPT)
    recorded = bench.record("script.py", options=["--disk-limit", "1.2MB", "--keep", "20", "--budget", "off"])
    assert recorded.returncode == 0
    assert folder_bytes(recorded.run) < 1.2e6
    with Trace(recorded.run) as trace:
        assert trace.sql("SELECT count(*) FROM steps WHERE completed").item() == 500
        assert trace.sql("SELECT count(DISTINCT step) FROM tensor_stats WHERE step >= 480").item() == 20
        assert trace.sql("SELECT sum(rows) FROM thinned").item() > 0
        assert trace.problems == []
