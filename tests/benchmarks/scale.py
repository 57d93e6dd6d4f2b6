"""What a diagnosis costs as a recording grows: seconds and memory at 1 to 100 million rows of tensor statistics.

    python tests/benchmarks/scale.py [--rows 1,3,10,30,100] [--threads 2] [--out FOLDER]

A small GPT is recorded in earnest for a few steps; its rows are then repeated, step after step with numbers that scatter as
training does, and written by the recorder's own part writer until the recording has the rows wanted. One NaN lies near the
end, so that rules have something to find and to explain. Every diagnosis runs in a process of its own: peak memory is that
process's maximum resident size (the operating system's count), seconds are wall clock from opening to verdict, beside them
the processor seconds of the whole process, which a busy machine does not stretch as much.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.schemas import TABLES, Phase
from firstfault.schemas.files.layout import part_path
from firstfault.schemas.files.parts import write_part
from models import GPT

RECORDED = 12
"""Steps recorded in earnest; the last of them is what is repeated."""

PART_ROWS = 2_000_000

MEASURE = """
import json, resource, sys, time
from firstfault.analyzer import Trace, diagnose
threads = int(sys.argv[2])
began = time.perf_counter()
with Trace(sys.argv[1], threads=threads) as trace:
    opened = time.perf_counter()
    # two conditions, each of which the files' own minima and maxima answer; joined by OR they would be a scan
    first = trace.sql(
        "SELECT least((SELECT min(step) FROM tensor_stats WHERE nan_count > 0),"
        " (SELECT min(step) FROM tensor_stats WHERE inf_count > 0))"
    ).item()
    found = time.perf_counter()
    verdict = diagnose(trace)
ended, cpu = time.perf_counter(), time.process_time()
print(json.dumps({
    "open_s": opened - began, "first_nonfinite_s": found - opened, "diagnose_s": ended - found, "first": first, "cpu_s": cpu,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "causes": [c.name for c in verdict.causes],
    "step": verdict.first_anomaly.step if verdict.first_anomaly else None,
}))
"""


def record(run: Path) -> None:
    """A real recording of a GPT of six layers and small width: as many tensors as the benchmark GPT, little arithmetic."""
    torch.manual_seed(0)
    model = GPT(vocabulary=64, width=32, layers=6, heads=4, length=16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with Recorder(run, model=model, budget="off"):
        for _ in range(RECORDED):
            tokens = torch.randint(64, (4, 17))
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            F.cross_entropy(logits.reshape(-1, 64), tokens[:, 1:].reshape(-1)).backward()
            optimizer.step()


def tile(run: Path, rows: int) -> tuple[int, int]:
    """Repeat the last step until tensor_stats has about ``rows`` rows; returns steps and rows."""
    scatter = np.random.default_rng(0)
    last = {
        name: ds.dataset(run / name, format="parquet", partitioning=None).to_table(
            filter=ds.field("step") == RECORDED - 1
        )
        for name in TABLES
        if (run / name).exists() and "step" in TABLES[name].column_names
    }
    a_step = last["tensor_stats"].num_rows
    steps = rows // a_step
    at_once = max(PART_ROWS // a_step, 1)
    bad = steps - 20
    index = 1000
    for first in range(RECORDED, RECORDED + steps, at_once):
        count = min(at_once, RECORDED + steps - first)
        for name, table in last.items():
            if table.num_rows and name not in {"events", "recorder_stats", "module_modes"}:
                write_part(part_path(run, 0, name, index), name, _repeat(table, name, first, count, bad, scatter), {})
        index += 1
    return steps, steps * a_step


def _repeat(table: pa.Table, name: str, first: int, count: int, bad: int, scatter: np.random.Generator) -> pa.Table:
    size = table.num_rows
    out = table.take(pa.array(np.tile(np.arange(size), count)))
    steps = np.repeat(np.arange(first, first + count, dtype=np.int32), size)
    out = _set(out, "step", pa.array(steps, out.schema.field("step").type))
    wobble = scatter.lognormal(0, 0.05, len(steps))
    for column in {"tensor_stats": ("sum_sq", "min", "max", "sum"), "steps": ("loss", "grad_norm")}.get(name, ()):
        out = _set(out, column, pc.multiply(out[column], pa.array(wobble)))
    if name == "batches":
        prints = scatter.integers(-(2**62), 2**62, len(steps))
        out = _set(out, "fingerprint", pa.array(prints))
        for column in ("sample_fingerprints", "label_counts"):
            out = _set(out, column, pa.nulls(len(steps), out.schema.field(column).type))
    if name == "steps":
        norms = out["grad_norm"].to_numpy(zero_copy_only=False).copy()
        norms[steps == bad] = np.nan
        out = _set(out, "grad_norm", pa.array(norms))
    if name == "tensor_stats" and first <= bad < first + count:
        at = np.flatnonzero((steps == bad) & (out["phase"].to_numpy() == int(Phase.BACKWARD)))[0]
        nans = out["nan_count"].to_numpy(zero_copy_only=False).copy()
        nans[at] = 3
        out = _set(out, "nan_count", pa.array(nans).cast(out.schema.field("nan_count").type))
    return out


def _rows_of(run: Path, table: str) -> int:
    return sum(pq.read_metadata(part).num_rows for part in (run / table).rglob("*.parquet"))


def _set(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), table.schema.field(column), values)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="1,3,10,30,100", help="millions of rows, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep the recordings here")
    options = parser.parse_args()
    folder = options.out or Path(tempfile.mkdtemp(prefix="firstfault-scale-"))
    print(
        f"{'rows':>12s} {'steps':>8s} {'GB':>6s} {'open':>7s} {'first':>7s} {'diagnose':>9s} {'CPU':>8s} {'peak MB':>8s}  said"
    )
    for millions in (float(m) for m in options.rows.split(",")):
        run = folder / f"rows-{millions:g}m"
        if not (run / "exit.json").exists():
            shutil.rmtree(run, ignore_errors=True)
            record(run)
            tile(run, int(millions * 1e6))
        rows, steps = _rows_of(run, "tensor_stats"), _rows_of(run, "steps")
        size = sum(f.stat().st_size for f in run.rglob("*") if f.is_file()) / 1e9
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(run), str(options.threads)], capture_output=True, text=True, check=True
        )
        m = json.loads(done.stdout)
        print(
            f"{rows:12,d} {steps:8,d} {size:6.2f} {m['open_s']:6.2f}s {m['first_nonfinite_s']:6.3f}s"
            f" {m['diagnose_s']:8.2f}s {m['cpu_s']:7.2f}s {m['peak_mb']:8.0f}  step {m['step']}: {', '.join(m['causes'])}",
            flush=True,
        )
        if options.out is None:
            shutil.rmtree(run)


if __name__ == "__main__":
    main()
