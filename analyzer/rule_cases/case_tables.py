"""Run folders written by hand, for the cases of rules: the schemas' own declarations, real Parquet parts.

A case gives rows by columns. What it leaves out has the ordinary, healthy value of ``DEFAULTS``, everything else is null.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ...schemas import TABLES, ExitRecord, RunManifest, Table
from ...schemas.files import parts
from ...schemas.files.layout import part_path
from ...schemas.files.parts import Rows
from ..errors import RuleError

DEFAULTS: dict[str, dict[str, Any]] = {
    "ranks": {"rank": 0, "world_size": 1},
    "modules": {"rank": 0, "model": "model", "own_numel": 0, "depth": 0},
    "tensors": {"rank": 0, "dtype": "float32", "device": "cpu", "requires_grad": True},
    "tensor_stats": {
        "rank": 0, "microbatch": 0, "seq": 0, "phase": "forward", "numel": 100, "nan_count": 0, "inf_count": 0,
        "min": -1.0, "max": 1.0, "sum": 0.0, "sum_sq": 10.0, "missing": False,
    },
    "steps": {
        "rank": 0, "optimizer_id": 0, "completed": True, "stepped": True, "skipped_by_scaler": False, "microbatches": 1,
        "time_ns": 0, "training": True,
    },
    "unwatched_steps": {"rank": 0, "time_ns": 0, "steps": 1},
    "norm_parts": {"rank": 0, "optimizer_id": 0, "norm": "grad_norm"},
    "param_groups": {"rank": 0, "optimizer_id": 0, "group_id": 0, "optimizer": "AdamW", "lr": 1e-3, "eps": 1e-8},
    "batches": {"rank": 0, "microbatch": 0, "seq": 0, "phase": "data", "role": "input", "dtype": "float32"},
    "operators": {
        "rank": 0, "microbatch": 0, "seq": 0, "phase": "forward", "dtype": "float32", "numel": 100, "nan_count": 0,
        "inf_count": 0, "zero_count": 0, "trigger": "nonfinite",
    },
    "schedulers": {"rank": 0, "steps": 1, "total_steps": 1, "before_optimizer": False, "lr": 1e-3},
    "module_modes": {"rank": 0, "microbatch": 0, "seq": 0, "training": True, "grad": True},
    "metrics": {"rank": 0, "time_ns": 0},
    "checkpoints": {"rank": 0, "time_ns": 0},
    "copies": {"rank": 0, "copy_id": 0},
    "embeddings": {"rank": 0},
    "target_lookups": {
        "rank": 0, "microbatch": 0, "seq": 0, "module_id": 0, "targets": 128, "counted": 128, "equal": 128, "varied": True,
        "ends_reached": True, "counted_reached": 1.0, "attentions": 2, "causal": 2,
    },
    "loss_terms": {"rank": 0, "microbatch": 0, "seq": 0, "loss_kind": 0, "term": 0, "terms": 2},
    "probes": {"rank": 0, "microbatch": 0, "seq": 0, "phase": "forward"},
    "live_tensors": {"rank": 0, "dtype": "float32", "with_graph": 0, "bytes": 1024},
    "memory_owners": {"rank": 0, "kind": "list", "element": "tensor", "with_graph": False, "rate": 1.0},
    "memory_blocks": {"rank": 0, "trigger": "oom", "source": "python", "category": "other", "device": "cpu", "blocks": 1},
    "memory_segments": {"rank": 0, "device": "cuda:0", "kind": "large"},
    "memory_events": {"rank": 0, "time_ns": 0, "device": "cuda:0", "action": "alloc"},
    "frames": {"rank": 0},
    "host_reads": {"rank": 0, "place": "train.py:10 in main", "device": "cpu"},
    "recorder_stats": {"rank": 0, "time_ns": 0},
    "events": {"rank": 0, "time_ns": 0},
    "captured_steps": {"rank": 0, "microbatch": 0, "time_ns": 0, "reason": "loss", "reproduced": True},
    "replays": {
        "rank": 0, "microbatch": 0, "phase": "forward", "dtype": "float32", "numel": 100, "nan_count": 0, "inf_count": 0,
        "first_bad": False,
    },
    "collectives": {
        "rank": 0, "microbatch": 0, "seq": 0, "phase": "data", "group": "default", "op": "all_reduce", "blocking": True,
        "waited_ns": 1000, "time_ns": 0,
    },
    "process_groups": {"rank": 0, "group": "default"},
    "ddp_times": {"rank": 0, "backend": "gloo"},
    "profiler_events": {"rank": 0, "window_id": 0, "ph": "X", "cat": "cpu_op", "pid": "1", "tid": "1"},
    "profiled_operators": {"rank": 0, "window_id": 0, "calls": 1},
    "system_samples": {"time_ns": 0},
    "thinned": {"rank": 0, "time_ns": 0, "rows": 1},
}  # fmt: skip
"""What a row of a case holds where it does not say: the ordinary, healthy value. Everything else is null."""


def filled(table: str, rows: Rows) -> list[dict[str, Any]]:
    """Rows with the defaults of their table; an unknown column is a mistake of the case."""
    known = set(TABLES[table].column_names)
    for row in rows:
        if unknown := set(row) - known:
            raise RuleError(f"{table} has no column {', '.join(sorted(unknown))}")
    return [{**DEFAULTS[table], **row} for row in rows]


def write_part(run: Path, name: str, rows: Rows, *, index: int = 0, rank: int = 0) -> Path:
    """One Parquet part."""
    path = part_path(run, rank, name, index)
    parts.write_part(path, name, parts.table_of(TABLES[name], rows), durable=False)
    return path


def manifest(**changes: Any) -> RunManifest:
    """A plain manifest of a process that is gone."""
    values: dict[str, Any] = {
        "run_id": "run-1", "firstfault_version": "0", "argv": ["train.py"], "script": "train.py", "cwd": "/nowhere",
        "started_ns": 1, "hostname": "host", "pid": 2**22 - 1, "python": "3.11", "platform": "linux",
    }  # fmt: skip
    return RunManifest(**(values | changes))


def exit_record(**changes: Any) -> ExitRecord:
    """A completed run unless the changes say otherwise; nested records are plain mappings and may be partial."""
    values: dict[str, Any] = {"status": "completed", "exit_code": 0, "ended_ns": 2, **changes}
    if isinstance(values.get("exception"), dict):
        values["exception"] = {**_EXCEPTION, **values["exception"]}
    values["last_positions"] = [{**_POSITION, **p} for p in values.get("last_positions", [])]
    return msgspec.convert(values, ExitRecord)


_EXCEPTION: dict[str, Any] = {"type": "RuntimeError", "message": "no", "traceback": ""}
_POSITION: dict[str, Any] = {
    "rank": 0, "pid": 1, "time_ns": 1, "step": 0, "microbatch": 0, "phase": "data", "module": None
}  # fmt: skip


def expand(group: Mapping[str, Any], table: Table) -> list[dict[str, Any]]:
    """One row per position of the longest column: scalars repeat, `"0..9"` counts, `"0..9000:500"` counts
    by 500, `"1.0, 1.1 x12"` cycles twelve values."""
    shapes = {c.name for c in table.columns if pa.types.is_list(c.type)}
    columns = {k: _column(v, nested=k in shapes) for k, v in group.items()}
    n = max((len(c) for c in columns.values() if len(c) != 1), default=1)
    return [{k: (c[0] if len(c) == 1 else c[i]) for k, c in columns.items()} for i in range(n)]


def _column(value: Any, *, nested: bool) -> list[Any]:
    if value == "@null":
        return [None]
    if isinstance(value, str) and ".." in value:
        low, high = value.split("..")
        high, _, by = high.partition(":")
        counts = all(n.isdigit() for n in (low, high, by or "1"))
        return list(range(int(low), int(high) + 1, int(by or 1))) if counts else [value]
    if not isinstance(value, list) or (nested and not any(isinstance(v, list) for v in value)):
        return [value]
    out: list[Any] = []
    for v in value:
        if v == "@null":
            out.append(None)
        elif isinstance(v, str) and " x" in v:
            cycle, _, times = v.rpartition(" x")
            try:
                numbers, count = itertools.cycle([float(c) for c in cycle.split(",")]), int(times)
            except ValueError:
                raise RuleError(f"{v!r} in a list of a case wants numbers and a count, such as '1.0,2.5 x12'") from None
            out += [next(numbers) for _ in range(count)]
        elif isinstance(v, str) and ".." in v and v.replace("..", "").isdigit():
            low, high = v.split("..")
            out += list(range(int(low), int(high) + 1))
        else:
            out.append(v)
    return out
