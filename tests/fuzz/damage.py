"""Cuts and flips files of recorded runs at random, and reads, judges and draws each: a benchmark of what damage does.

    python tests/fuzz/damage.py RUN [RUN ...] [--cases 5000] [--seed 0] [--judge 20] [--pages 100]

Counts tracebacks (anything but a known error with its sentence), silent changes (another verdict without a word of damage) and
hangs (a case that takes longer than HANG_S). Every damaged run is opened, and all its files read; it is judged wherever no remark
names the damage and what was read is not what had been there, and of the others every Nth (``--judge``), because a verdict costs
twenty times as much. ``--pages N``: the page is
drawn in every Nth case.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
from firstfault.analyzer import AnalyzerError, Trace, diagnose
from firstfault.analyzer.reading.liveness import positions_left
from firstfault.analyzer.reading.sources import read_part
from firstfault.reports.commands.common import named
from firstfault.reports.page.render import write_page
from firstfault.schemas import SchemaError, captures_of
from firstfault.schemas.files.layout import segments
from firstfault.schemas.files.unrecorded import process_notes

HANG_S = 60
"""Seconds of processor time, and fifteen times as many of a busy machine's clock; a small run takes less than three."""


@dataclass
class Outcome:
    """What became of one damaged run."""

    kind: str
    """same, said (a remark names the damage), refused (an error in one line), silent, traceback, hang."""
    words: str = ""


@dataclass
class Tally:
    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    by_file: Counter[tuple[str, str]] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    seconds: float = 0.0


def files_of(run: Path) -> list[Path]:
    """Files with at least one byte, in a stable order."""
    return sorted(p.relative_to(run) for p in run.rglob("*") if p.is_file() and p.stat().st_size)


def damage(raw: bytes, rng: random.Random, records: list[int]) -> tuple[bytes, str]:
    """The bytes cut or changed somewhere, and how. ``records``: places between two records, at which a cut hurts most."""
    how = rng.randrange(5 if records else 4)
    at = rng.randrange(len(raw))
    if how == 0:
        return raw[:at], f"cut at {at} of {len(raw)}"
    if how == 1:
        length = min(len(raw) - at, rng.choice([16, 512, 4096]))
        return raw[:at] + bytes(length) + raw[at + length :], f"{length} zeros at {at} of {len(raw)}"
    if how == 4:
        at = rng.choice(records)
        return raw[:at], f"cut between records at {at} of {len(raw)}"
    changed = bytearray(raw)
    changed[at] ^= 1 << rng.randrange(8) if how == 2 else rng.randrange(1, 256)
    return bytes(changed), f"byte {at} of {len(raw)}: {raw[at]} → {changed[at]}"


def record_ends(run: Path) -> dict[Path, list[int]]:
    """Journal segment → places at which a record ends."""
    found: dict[Path, list[int]] = {}
    for *_, path in segments(run):
        source = pa.BufferReader(path.read_bytes())
        stream = pa.ipc.open_stream(source)
        ends = [source.tell()]
        try:
            while True:
                stream.read_next_batch()
                ends.append(source.tell())
        except StopIteration:
            pass
        found[path.relative_to(run)] = ends[:-1]
    return found


def content(trace: Trace) -> str:
    """A hash of all that a verdict is made of: tables, records, captures, notes, positions."""
    digest = hashlib.sha256(repr((trace.manifest, trace.exit, trace.status, positions_left(trace.path))).encode())
    digest.update(repr((captures_of(trace.path), process_notes(trace.path))).encode())
    for name, source in trace._sources.items():
        pieces = [read_part(path, source.table, columns) for path, columns in source.parts] + source.journal
        for rows in pieces:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows.combine_chunks())
            digest.update(name.encode() + memoryview(sink.getvalue()))
    return digest.hexdigest()


def judged(run: Path, page: Path | None, whole: dict | None = None) -> dict:
    """The verdict, and what is wrong with the files; of a run that need not be judged only that. ``whole``: the run before it was
    damaged, whose verdict it has where it holds the same and nothing is wrong with it."""
    with Trace(run) as trace:
        problems = sorted(p.what for p in trace.problems)
        held = content(trace) if whole is None or problems == whole["problems"] else ""
        if whole is not None and (problems != whole["problems"] or held == whole["content"]):
            return whole | {"problems": problems}
        verdict = diagnose(trace)
        if page is not None:
            write_page(trace, verdict, page, force=True)
        said = json.loads(msgspec.json.encode(named(msgspec.to_builtins(verdict))))
        said |= {"problems": problems, "content": held or content(trace)}
    return said


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    kinds = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 15 * seconds)}
    before = {number: signal.signal(number, late) for number in kinds}
    for which, after in kinds.values():
        signal.setitimer(which, after)
    try:
        yield
    except RuntimeError as e:
        if "interrupted" not in str(e):  # what DuckDB makes of a signal's exception
            raise
        raise TimeoutError from e
    finally:
        for which, _ in kinds.values():
            signal.setitimer(which, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def outcome(run: Path, whole: dict, page: Path | None, *, judge: bool) -> Outcome:
    """Read a damaged run, and judge and draw it; without ``judge`` only where no remark names the damage."""
    try:
        with at_most(HANG_S):
            found = judged(run, page, None if judge or page is not None else whole)
    except TimeoutError:
        return Outcome("hang")
    except (AnalyzerError, SchemaError) as e:
        return Outcome("refused", str(e))
    except Exception:  # noqa: BLE001 - what is counted here
        return Outcome("traceback", traceback.format_exc())
    if found["problems"] != whole["problems"]:
        return Outcome("said", "; ".join(found["problems"]))
    differs = {k: v for k, v in found.items() if k != "content" and v != whole[k]}
    return Outcome("silent", _difference(differs, whole)) if differs else Outcome("same")


def _difference(found: dict, whole: dict) -> str:
    return "; ".join(f"{k}: {str(v)[:300]} instead of {str(whole[k])[:300]}" for k, v in found.items())


def fuzz(
    runs: list[Path], cases: int, seed: int, scratch: Path, *, judge: int = 20, pages: int = 100, say=lambda _: None
) -> Tally:
    """``cases`` damaged runs, each with one file damaged."""
    rng = random.Random(seed)
    tally = Tally()
    known = []
    for number, run in enumerate(runs):
        copy = scratch / f"{number}" / run.name
        shutil.copytree(run, copy)
        page = scratch / f"{number}.html"
        known.append((copy, files_of(copy), record_ends(copy), judged(copy, page), page))
    began = time.process_time()
    for case in range(cases):
        copy, files, ends, whole, page = rng.choice(known)
        name = rng.choice(files)
        raw = (copy / name).read_bytes()
        damaged, how = damage(raw, rng, ends.get(name, []))
        if damaged == raw:
            continue
        (copy / name).write_bytes(damaged)
        try:
            found = outcome(copy, whole, page if case % pages == 0 else None, judge=case % judge == 0)
        finally:
            (copy / name).write_bytes(raw)
        tally.cases += 1
        tally.kinds[found.kind] += 1
        kind = name.parts[0] if len(name.parts) > 1 else name.name
        tally.by_file[kind, found.kind] += 1
        if found.kind in {"silent", "traceback", "hang"}:
            tally.bad.append(f"case {case} {copy.name}/{name} {how}: {found.kind}\n{found.words}")
            say(tally.bad[-1])
        if case % 250 == 249:
            say(f"{case + 1} cases, {dict(tally.kinds)}, {time.process_time() - began:.0f} s")
    tally.seconds = time.process_time() - began
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", type=int, default=20)
    parser.add_argument("--pages", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        say = lambda words: print(words, file=sys.stderr, flush=True)  # noqa: E731
        tally = fuzz(asked.runs, asked.cases, asked.seed, Path(scratch), judge=asked.judge, pages=asked.pages, say=say)
    for (kind, what), count in sorted(tally.by_file.items()):
        print(f"{kind:24} {what:10} {count}")
    print(f"{tally.cases} cases: {dict(tally.kinds)}; {tally.seconds:.0f} s of CPU time")
    raise SystemExit(1 if tally.bad else 0)


if __name__ == "__main__":
    main()
