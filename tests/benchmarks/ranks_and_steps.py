"""What a run costs as ranks and steps grow: written by the recorder's own journal and compaction, then diagnosed.

    python tests/benchmarks/ranks_and_steps.py [--sizes 1x10000,8x10000,64x10000] [--distinct 8] [--threads 2] [--out FOLDER]

A small model is recorded in earnest. The rows of one of its steps are then written again, step after step and rank after rank,
with numbers that scatter, through JournalWriter, compact and merge. Beyond ``--distinct`` ranks that costs hours: the parts of
further ranks are those of one of the first, with another rank, losses and fingerprints, through the recorder's own write_part.
Printed are bytes on the disk, processor seconds of writing, and seconds and memory of a diagnosis in a process of its own. The
last column divides its processor seconds by a thousand steps of a rank, so that what does not grow in proportion shows.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from firstfault.recorder import Recorder
from firstfault.recorder.storage.compaction import compact
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.storage.merging import merge
from firstfault.schemas import TABLES, read_manifest, write_json
from firstfault.schemas.files.integrity import write_checksums
from firstfault.schemas.files.layout import EXIT_JSON, RUN_JSON, Part, part_path, parts
from firstfault.schemas.files.parts import write_part
from firstfault.schemas.files.step_values import STEP_VALUES
from torch import nn

RECORDED = 12
_COMPACT_EVERY = 20_000

MEASURE = """
import json, resource, sys, time
from firstfault.analyzer import Trace, diagnose
began = time.perf_counter()
with Trace(sys.argv[1], threads=int(sys.argv[2])) as trace:
    opened = time.perf_counter()
    verdict = diagnose(trace)
print(json.dumps({"open_s": opened - began, "wall_s": time.perf_counter() - began, "cpu_s": time.process_time(),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "verdict": verdict.verdict,
    "causes": [c.name for c in verdict.causes], "steps": verdict.run.steps_recorded}))
"""


def record(run: Path) -> None:
    """A real recording of a small model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with Recorder(run, model=model, budget="off"):
        for _ in range(RECORDED):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(4, (16,))).backward()
            optimizer.step()


def rows_of(run: Path) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    """Rows that stand once in a run, and those of its last step."""
    once: dict[str, list[dict]] = {}
    each: dict[str, list[dict]] = {}
    for name in TABLES:
        rows = [row for part in parts(run, name) for row in pq.read_table(part.path).to_pylist()]
        if "step" in TABLES[name].column_names and name not in {"events", "module_modes", "system_samples"}:
            found = [row for row in rows if row["step"] == RECORDED - 1]
            if found:
                each[name] = found
        if name in {"ranks", "modules", "tensors"}:
            once[name] = rows
    for name in once:
        each.pop(name, None)
    return once, each


def write_rank(run: Path, once: dict, each: dict, steps: int, world: int, rank: int) -> float:
    """Write one rank through the journal; processor seconds."""
    began = time.process_time()
    scatter = random.Random(rank)
    writer = JournalWriter(run, rank)
    first = {name: [{**row, "rank": rank} for row in rows] for name, rows in once.items()}
    for row in first.get("ranks", ()):
        row["world_size"] = world
    loss = 1.4
    for step in range(steps):
        values: dict[str, list[dict[str, Any]]] = dict(first) if step == 0 else {}
        loss += scatter.gauss(0, 0.01) - (loss - 1.2) * 0.01
        for name, rows in each.items():
            wobble = scatter.lognormvariate(0, 0.05)
            made = []
            for row in rows:
                new = {**row, "rank": rank, "step": step}
                for column in ("sum_sq", "grad_norm"):
                    if isinstance(new.get(column), float):
                        new[column] *= wobble
                if "time_ns" in new:
                    new["time_ns"] = 1_700_000_000_000_000_000 + step * 10_000_000
                if name == "steps":
                    new["loss"] = loss
                if "fingerprint" in new and new["fingerprint"] is not None:
                    new["fingerprint"] = scatter.getrandbits(62)
                    new["sample_fingerprints"] = None
                made.append(new)
            values[name] = made
        writer.append({STEP_VALUES: values})
        if step % _COMPACT_EVERY == _COMPACT_EVERY - 1:
            writer.rotate()
    writer.close()
    return time.process_time() - began


def copy_rank(run: Path, written: list[tuple[str, Part]], distinct: int, rank: int) -> float:
    """Write the parts of a further rank from those of one of the first; processor seconds."""
    began = time.process_time()
    scatter = random.Random(rank)
    shift, factor = scatter.getrandbits(62), scatter.lognormvariate(0, 0.01)
    for name, part in written:
        if part.rank != rank % distinct:
            continue
        with pq.ParquetFile(part.path) as file:
            rows, about = file.read(use_threads=False), file.schema_arrow.metadata or {}
        rows = _put(rows, "rank", pa.repeat(pa.scalar(rank, TABLES[name].schema.field("rank").type), len(rows)))
        if name == "steps":
            rows = _put(rows, "loss", pc.multiply(rows["loss"], factor))
        if name == "batches":
            rows = _put(rows, "fingerprint", pc.bit_wise_xor(rows["fingerprint"], shift))
        write_part(part_path(run, rank, name, part.first, part.last), name, rows, about, durable=False)
    return time.process_time() - began


def _put(rows: pa.Table, column: str, values: Any) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows if at < 0 else rows.set_column(at, rows.schema.field(column), values)


def main() -> None:
    """Write, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1x10000,8x10000,64x10000")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--distinct", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp(prefix="firstfault-ranks-"))
    recorded = folder / "recorded"
    if not recorded.exists():
        record(recorded)
    once, each = rows_of(recorded)
    print(
        "ranks  steps    MB     files  write_cpu_s  open_s  wall_s  cpu_s  peak_MB  verdict        cpu_ms per 1000 rank-steps"
    )
    for size in given.sizes.split(","):
        ranks, steps = map(int, size.split("x"))
        run = folder / size
        if not run.exists():
            run.mkdir()
            manifest = read_manifest(recorded)
            manifest.world_size, manifest.hostname = ranks, "elsewhere"
            write_json(run / RUN_JSON, manifest)
            with ProcessPoolExecutor(given.jobs) as pool:
                first = range(min(ranks, given.distinct))
                seconds = sum(pool.map(partial(write_rank, run, once, each, steps, ranks), first))
            began = time.process_time()
            shutil.copy(recorded / EXIT_JSON, run / EXIT_JSON)
            compact(run, finished=True)
            merge(run, finished=True)
            with ProcessPoolExecutor(given.jobs) as pool:
                written = [(name, part) for name in TABLES for part in parts(run, name)]
                more = range(len(first), ranks)
                seconds += sum(pool.map(partial(copy_rank, run, written, len(first)), more, chunksize=8))
            write_checksums(run)
            seconds += time.process_time() - began
        else:
            seconds = float("nan")
        files = [p for p in run.rglob("*") if p.is_file()]
        taken = sum(p.stat().st_size for p in files) / 1e6
        command = [sys.executable, "-c", MEASURE, run, str(given.threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        said = json.loads(done.stdout)
        share = said["cpu_s"] * 1e6 / (ranks * steps)
        print(
            f"{ranks:5} {steps:7} {taken:7.1f} {len(files):6} {seconds:11.1f} {said['open_s']:7.1f} {said['wall_s']:7.1f}"
            f" {said['cpu_s']:6.1f} {said['peak_mb']:8.0f}  {said['verdict']:13} {share:8.1f}  {' '.join(said['causes'])}",
            flush=True,
        )
    if given.out is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
