"""Compare what two versions of the recorder write of the same trainings: equal rows but for times.

    python tests/recorder/compare_recorders.py OTHER_TREE [STYLE ...]

OTHER_TREE is a checkout of the other version. Every style of scripts/styles.py is recorded with both, in full, and every table
is compared but for what no two recordings have in common: times, memory of the process, and names of the machine.
"""

import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import parts

STYLES = Path(__file__).parent / "scripts" / "styles.py"

_BY_CHANCE = {
    "steps": {"rss_bytes", "anonymous_bytes", "journal_bytes", "detail", "live_tensors", "live_tensor_bytes"},
    "ranks": {"pid", "numpy_rng", "python_rng"},
    "collectives": {"place"},
}
_WHOLLY_BY_CHANCE = {"system_samples", "recorder_stats", "live_tensors"}
"""Taken when time allows it."""


def rows_of(run: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    return [row for part in parts(run, table) for row in pq.read_table(part.path).to_pylist()]


def comparable(run: Path, *, order: bool = True) -> dict[str, Counter[str]]:
    """Table → its rows as text, without what differs between any two recordings; without ``order`` also without the order in
    which things were captured within a step, and what this process has open; a tensor's number, which its first row gives it,
    then stands for its name."""
    names = {(row["rank"], row["tensor_id"]): f"{row['kind']} {row['tensor_name']}" for row in rows_of(run, "tensors")}

    def shown(row: dict[str, Any], column: str) -> Any:
        return (
            names.get((row["rank"], row[column]), row[column]) if not order and column == "tensor_id" else row[column]
        )

    found: dict[str, Counter[str]] = {}
    for table in TABLES.values():
        if table.name in _WHOLLY_BY_CHANCE:
            continue
        left_out = {c.name for c in table.columns if c.unit == "ns" or c.name.endswith("_ns")}
        left_out |= _BY_CHANCE.get(table.name, set())
        left_out |= set() if order else {"seq", "open_files"}
        found[table.name] = Counter(
            repr(sorted((k, shown(row, k)) for k, v in row.items() if k not in left_out and v is not None)).replace(
                str(run.parent.resolve()), "FOLDER"
            )
            for row in rows_of(run, table.name)
        )
    return found


def differences(one: dict[str, Counter[str]], other: dict[str, Counter[str]]) -> list[str]:
    """Rows that only one of two recordings has, each with its table and the side it is on."""
    told: list[str] = []
    for table, rows in one.items():
        told += [f"- {table}: {row}" for row in (rows - other[table]).elements()]
        told += [f"+ {table}: {row}" for row in (other[table] - rows).elements()]
    return told


def record(tree: Path, style: str, run: Path) -> None:
    """Record a style with the recorder of a tree."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "firstfault").symlink_to(tree.resolve())
        environment: dict[str, Any] = {**os.environ, "PYTHONPATH": folder}
        command = [sys.executable, "-m", "firstfault", "run", "--budget", "off", "--out", str(run), str(STYLES), style]
        subprocess.run(command, env=environment, check=True, capture_output=True, cwd=run.parent)


def main(other: Path, styles: list[str]) -> int:
    """Compare; 1 if any row differs."""
    mine = Path(__file__).parents[2]
    worst = 0
    for style in styles or _styles():
        with tempfile.TemporaryDirectory() as folder:
            runs = Path(folder) / "before", Path(folder) / "after"
            for tree, run in zip((other, mine), runs, strict=True):
                record(tree, style, run)
            before, after = map(comparable, runs)
            told = differences(before, after)
            print(f"{style}: {sum(map(Counter.total, before.values()))} rows, {len(told)} differ", flush=True)
            for line in _apart(told) or told[:12]:
                print("   ", line[:400])
            worst = max(worst, bool(told))
    return worst


def _apart(told: list[str]) -> list[str]:
    """What is different in rows that both sides have as many of."""
    mine, other = ([line[2:] for line in told if line[0] == side] for side in "-+")
    if len(mine) != len(other):
        return []
    pairs = zip(mine, other, strict=True)
    return [" | ".join(sorted(set(a.split("), (")) ^ set(b.split("), (")))[:8]) for a, b in pairs]


def _styles() -> list[str]:
    """Functions of styles.py that are trainings: those of no arguments."""
    tree = ast.parse(STYLES.read_text("utf-8"))
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.args.args]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
