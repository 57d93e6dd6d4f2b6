"""How fast a profiler trace becomes Parquet, and in how much memory, beside other readers on the same file.

    python tests/benchmarks/import_speed.py [--trace FILE] [--steps 90] [--large 1000] [--hta PYTHON] [--only NAME]
                                            [--repeat 5] [--layouts]

Without --trace a small GPT is trained under torch.profiler (shapes and memory) and its trace taken: 90 steps are about 290 MB.
``--large`` adds the same events again and again, with later times, until the file has so many MB, and imports that as well.
``--layouts`` writes the same events in other layouts, too: compact, indented by two and by four, with keys in alphabetical order.
``--hta`` is the python of an environment that has HolisticTraceAnalysis, orjson and pyarrow.
Every reader runs in a process of its own; CPU seconds
are its own, from after the imports to the end, and peak memory is that of the process. ``--repeat`` runs all readers in turn,
back and forth, so often and says of each its median and its best: what shares the processor makes a CPU-second worth less,
never more.
`firstfault import` does more than the others within its time: it tells steps apart and checks the trace; its line without
checks is there to compare.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

TRACED = """
import sys, torch, torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
sys.path.insert(0, sys.argv[3])
from models import GPT
torch.manual_seed(0)
torch.set_num_threads(1)
model = GPT(width=32)
optimizer = torch.optim.AdamW(model.parameters())
steps = int(sys.argv[1])
def save(p):
    p.export_chrome_trace(sys.argv[2])
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=steps, repeat=1), record_shapes=True,
             profile_memory=True, on_trace_ready=save) as p:
    for _ in range(steps + 2):
        tokens = torch.randint(2048, (4, 17))
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        p.step()
"""

PARQUET = """
def parquet(events, out, step=200_000):
    import pyarrow as pa, pyarrow.parquet as pq
    names = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id")
    writer = None
    for first in range(0, len(events), step):
        some = events[first:first + step]
        columns = {n: [e.get(n) for e in some] for n in names}
        columns["pid"], columns["tid"] = ([str(v) for v in columns[n]] for n in ("pid", "tid"))
        columns["id"] = [None if v is None else str(v) for v in columns["id"]]
        columns["args"] = [dumps(e.get("args")) for e in some]
        types = [pa.string()] * 5 + [pa.float64()] * 2 + [pa.string()] * 2
        table = pa.table([pa.array(v, t) for v, t in zip(columns.values(), types)], names=list(columns))
        writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
        writer.write_table(table)
    writer.close()
"""

READERS = {
    "firstfault import": """
from pathlib import Path
from firstfault.analyzer.importers import import_files
import duckdb, polars, pyarrow
pyarrow.array([0])  # which imports pandas where it is installed
start()
import_files([Path(trace)], Path(out), "0")
stop(duckdb.sql(f"SELECT count(*) FROM '{out}/profiler_events/*/*.parquet'").fetchall()[0][0])
""",
    "firstfault import, no library in C": """
import os
os.environ["FIRSTFAULT_NATIVE"] = "0"
from pathlib import Path
from firstfault.analyzer.importers import import_files
import duckdb, polars, pyarrow
pyarrow.array([0])
start()
import_files([Path(trace)], Path(out), "0")
stop(duckdb.sql(f"SELECT count(*) FROM '{out}/profiler_events/*/*.parquet'").fetchall()[0][0])
""",
    "firstfault, JSON to Parquet only": """
from pathlib import Path
from firstfault.analyzer.importers.kineto import KinetoTrace
import duckdb, polars, pyarrow
pyarrow.array([0])
Path(out).mkdir()
start()
t = KinetoTrace(Path(trace))
t.find_steps()
t.write(Path(out) / "part.parquet", rank=0, window=0)
stop(t.events)
""",
    "polars, whole file": """
import polars as pl
start()
schema = {name: pl.String for name in ("ph", "cat", "name", "pid", "tid")} | {"ts": pl.Float64, "dur": pl.Float64}
frame = pl.read_json(trace, schema={"traceEvents": pl.List(pl.Struct(schema))}).explode("traceEvents").unnest("traceEvents")
frame.write_parquet(out, compression="zstd")
stop(frame.height)
""",
    "orjson": PARQUET
    + """
import orjson, pyarrow.parquet
dumps = lambda v: orjson.dumps(v).decode()
start()
events = orjson.loads(open(trace, "rb").read())["traceEvents"]
parquet(events, out)
stop(len(events))
""",
    "json": PARQUET
    + """
import json, pyarrow.parquet
dumps = json.dumps
start()
events = json.load(open(trace))["traceEvents"]
parquet(events, out)
stop(len(events))
""",
    "HolisticTraceAnalysis": """
import os, logging
from hta.common.trace import Trace
start()
t = Trace(trace_files={0: trace}, trace_dir=os.path.dirname(trace))
t.parse_traces(use_multiprocessing=False)
t.traces[0].to_pickle(out)
stop(len(t.traces[0]))
""",
}
"""Reader → what it does; polars leaves out the args, which is less work than the others do."""

FRAME = """
import sys, time, json
trace, out = sys.argv[1:3]
began = [0.0]
def start():
    began[0] = time.process_time()
def stop(events):
    used = time.process_time() - began[0]
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"cpu": used, "events": int(events), "peak": peak / 1024}))
"""


def measure(python: str, code: str, trace: Path) -> tuple[float, int, float] | str:
    """CPU seconds, events and peak memory in MB of one reader; what went wrong in its stead."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", FRAME + code, str(trace), f"{folder}/out"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["died"])[-1][:60]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return said["cpu"], said["events"], said["peak"]


def enlarged(trace: Path, megabytes: float, out: Path) -> Path:
    """The events of a trace again and again, each time later and with later steps."""
    text = trace.read_bytes()
    first, last = text.index(b'"traceEvents": [') + 16, text.rindex(b"\n  ]")
    head, body, tail = text[:first], text[first:last], text[last:]
    times = [float(t) for t in re.findall(rb'"ts": ([\d.]+)', body)]
    length = max(times) - min(times) + 1e3
    steps = len(set(re.findall(rb"ProfilerStep#(\d+)", body)))
    with out.open("wb") as file:
        file.write(head + body)
        again = 0
        while file.tell() < megabytes * 1e6:
            again += 1
            later = re.sub(rb'"ts": ([\d.]+)', lambda m, n=again: b'"ts": %.3f' % (float(m[1]) + n * length), body)
            later = re.sub(
                rb"ProfilerStep#(\d+)", lambda m, n=again: b"ProfilerStep#%d" % (int(m[1]) + n * steps), later
            )
            file.write(b"," + later)
        file.write(tail)
    return out


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--large", type=float, metavar="MB")
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--layouts", action="store_true")
    parser.add_argument("--only", nargs="+", choices=READERS, default=list(READERS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = given.trace
        if trace is None:
            trace = Path(folder) / "trace.json"
            command = [sys.executable, "-c", TRACED, str(given.steps), str(trace), str(Path(__file__).parent)]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        size = trace.stat().st_size / 1e6
        print(f"{size:.0f} MB, {count(trace)} events\n")
        table(trace, given.only, given.hta, given.repeat)
        for name in LAYOUTS if given.layouts else ():
            other = laid_out(trace, name, Path(folder) / "other.json")
            print(f"\n{name}: {other.stat().st_size / 1e6:.0f} MB\n")
            table(other, given.only, given.hta, given.repeat)
        if given.large:
            trace = enlarged(trace, given.large, Path(folder) / "large.json")
            print(f"\n{trace.stat().st_size / 1e6:.0f} MB, {count(trace)} events\n")
            table(trace, [n for n in given.only if n.startswith("firstfault")], None, given.repeat)


LAYOUTS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "indented by two": {"indent": 2},
    "indented by four, keys in alphabetical order": {"indent": 4, "sort_keys": True},
}
"""Layout -> what json.dump is told."""


def laid_out(trace: Path, layout: str, out: Path) -> Path:
    """The same events as another program would save them."""
    code = (
        "import json, sys; json.dump(json.load(open(sys.argv[1])), open(sys.argv[2], 'w'), **json.loads(sys.argv[3]))"
    )
    subprocess.run([sys.executable, "-c", code, str(trace), str(out), json.dumps(LAYOUTS[layout])], check=True)
    return out


_APART = ("HolisticTraceAnalysis", "orjson")
"""Readers whose packages are not among those of the tests."""


def table(trace: Path, names: list[str], hta: str | None, repeat: int) -> None:
    """Run these readers in turn and print a line of each."""
    pythons = {name: hta if name in _APART else sys.executable for name in names}
    found: dict[str, list[tuple[float, int, float] | str]] = {name: [] for name in names}
    for number in range(repeat):
        # Back and forth: one that follows a reader of gigabytes finds no memory that was touched lately.
        for name, python in reversed(pythons.items()) if number % 2 else pythons.items():
            found[name].append(measure(python, READERS[name], trace) if python else "no --hta given")
    print(f"{'reader':34} {'MB per CPU-second':>18} {'best':>6} {'peak MB':>8} {'events':>9}")
    for name, measured in found.items():
        show(name, measured, trace.stat().st_size / 1e6)


def count(trace: Path) -> int:
    """Events of a file that need not fit into memory."""
    with trace.open("rb") as file:
        return sum(line.startswith(b'    "ph": "') for line in file)


def show(name: str, found: list[tuple[float, int, float] | str], size: float) -> None:
    """One line."""
    whole = [one for one in found if not isinstance(one, str)]
    if not whole:
        print(f"{name:34} {found[0]}")
        return
    speeds = [size / cpu for cpu, _, _ in whole]
    events, peak = whole[0][1], max(peak for _, _, peak in whole)
    print(f"{name:34} {median(speeds):18.0f} {max(speeds):6.0f} {peak:8.0f} {events:9d}", flush=True)


if __name__ == "__main__":
    main()
