"""What `firstfault batch` costs over many runs: processor seconds cold and incremental, memory, the index in a browser.

    python tests/benchmarks/batch_of_many.py RECORDED [--runs 300] [--judged 300] [--jobs 2] [--out FOLDER]

RECORDED holds a dozen different runs, say of scripts in tests/corpus; they are copied under other names, times and settings until
there are enough. The sixth is torn. The processor seconds are those of the command and its processes, which a busy
machine does not stretch as much as wall clock; peak memory is the largest process of them. Judging costs seconds a run: beyond
``--judged`` runs the batch finds rows and pages as an earlier batch would have left them, and is measured on what is left to do.
The page is opened in chromium: until all rows are there, until a word filters them, until a column is sorted.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
from firstfault.analyzer import rules_for
from firstfault.reports.batch.run import RUNS, _Kept
from firstfault.reports.batch.run_tree import find_runs, state_key


def make_runs(recorded: Path, target: Path, first: int, last: int) -> None:
    """Copies of recorded runs with settings of their own, and a torn one among the first ten."""
    sources = sorted(p.parent for p in recorded.glob("*/run.json"))
    if not sources:
        sys.exit(f"{recorded}: holds no runs")
    for i in range(first, last):
        source = sources[i % len(sources)]
        run = target / f"lr-{i % 5}" / f"{i:05d}-{source.name}"
        shutil.copytree(source, run, copy_function=_link)
        manifest = json.loads((source / "run.json").read_text())
        settings = {
            "lr": 10.0 ** -(i % 5 + 1),
            "seed": i % 7,
            "script": source.name,
            "width": i % 97 * 8,
            "warm": i % 11,
        }
        manifest |= {"run_id": run.name, "config": settings, "started_ns": manifest["started_ns"] + i * 60_000_000_000}
        manifest.pop("crc32", None)
        (run / "run.json").unlink()
        (run / "run.json").write_text(json.dumps(manifest) if i != 5 else '{"run_id": ')


def _link(source: str, target: str) -> None:
    if source.endswith("output.log"):
        shutil.copy2(source, target)  # one of these is written to
    else:
        os.link(source, target)


def leave_rows(tree: Path, out: Path) -> int:
    """Rows and pages for the runs that have none, as a batch would have left them: of the judged run that each was copied
    from, with the loss moved a little."""
    places = find_runs([tree])
    rules = rules_for(places[0].path, None)
    kept = {
        p.slug: msgspec.json.decode(path.read_bytes(), type=_Kept)
        for p in places
        if (path := _state(out, p.slug)).exists()
    }
    judged = {p.path.name.partition("-")[2]: kept[p.slug].row for p in places if p.slug in kept}
    left = 0
    for number, place in enumerate(places):
        source = judged.get(place.path.name.partition("-")[2])
        if place.slug in kept or source is None:
            continue
        row = msgspec.structs.replace(
            source, name=place.name, path=place.shown, slug=place.slug, page=f"{RUNS}/{place.slug}.html"
        )
        curve = [v and v * (1 + number % 89 / 1000) for v in source.summary.loss_curve]
        config = json.loads((place.path / "run.json").read_text())["config"]
        told = {k: float(v) if isinstance(v, (int, float)) else v for k, v in config.items()}
        row.summary = msgspec.structs.replace(source.summary, loss_curve=curve, settings=source.summary.settings | told)
        os.link(out / str(source.page), out / str(row.page))
        _state(out, place.slug).write_bytes(msgspec.json.encode(_Kept(key=state_key(place, rules), row=row)))
        left += 1
    return left


def _state(out: Path, slug: str) -> Path:
    return out / RUNS / f"{slug}.json"


def measured(command: list[str]) -> dict[str, float]:
    """Seconds and memory of a command with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in {0, 1, 3} or "Traceback" in done.stderr:
        sys.exit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "peak_mb": round(after.ru_maxrss / 1024)}


def in_browser(page: Path) -> dict[str, Any]:
    """Seconds until the page is whole, filtered and sorted: of the clock, and processor seconds of its processes."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        return {"browser": "none"}
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        opened.wait_for_timeout(1000)
        began, before = time.perf_counter(), _cpu_of_children()
        opened.goto(page.as_uri())
        opened.wait_for_selector("#table tbody tr")
        seen = time.perf_counter() - began
        opened.wait_for_selector("html[data-rows=all]")
        whole = time.perf_counter() - began
        opened.wait_for_timeout(1000)
        drawn = _cpu_of_children() - before
        timed = """(act) => { const t = performance.now(), filter = document.getElementById("filter");
            if (act === "sort") document.querySelector("#table th:nth-child(9) button").click();
            else { filter.value = "lr-3"; filter.dispatchEvent(new Event("input")); }
            document.body.offsetHeight; return (performance.now() - t) / 1000; }"""
        acts = {}
        for act in ("filter", "sort"):
            before = _cpu_of_children()
            acts[f"{act}_s"] = opened.evaluate(timed, act)
            acts[f"{act}_cpu_s"] = _cpu_of_children() - before
        said = opened.locator("#shown").inner_text()
        browser.close()
    found = {"first_rows_s": seen, "all_rows_s": whole, "open_cpu_s": drawn} | acts
    return {name: round(seconds, 2) for name, seconds in found.items()} | {"says": said}


def _cpu_of_children() -> float:
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            seconds += sum(process.cpu_times()[:2])
    return seconds


def main() -> None:
    """Make the runs, judge them twice, and once more after one of them has changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--judged", type=int, default=300, help="so many at most are judged")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp(prefix="firstfault-batch-"))
    tree, out = folder / "tree", folder / "out"
    judged = min(given.runs, given.judged)
    make_runs(given.recorded, tree, 0, judged)
    command = [sys.executable, "-m", "firstfault", "batch", str(tree), "-o", str(out), "-j", str(given.jobs)]
    print(f"cold, {judged} runs", measured(command), flush=True)
    if given.runs > judged:
        make_runs(given.recorded, tree, judged, given.runs)
        print("rows left for", leave_rows(tree, out), "runs", flush=True)
    print("unchanged  ", measured(command), flush=True)
    first = next(tree.rglob("output.log"))
    first.write_text(first.read_text() + "one line more\n")
    print("one changed", measured(command), flush=True)
    index = json.loads((out / "index.json").read_text())
    verdicts = {v: sum(r["verdict"] == v for r in index["runs"]) for v in {r["verdict"] for r in index["runs"]}}
    print("verdicts   ", verdicts)
    sizes = {name: (out / name).stat().st_size for name in ("index.html", "index.json", "findings.parquet")}
    print("bytes      ", sizes, "all pages", sum(p.stat().st_size for p in out.rglob("*")))
    print("browser    ", in_browser(out / "index.html"))


if __name__ == "__main__":
    main()
