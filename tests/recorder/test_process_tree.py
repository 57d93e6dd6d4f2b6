"""Samples of the process tree and the memory of its control group, v1 and v2."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from firstfault.recorder.storage.segments import read_rows
from firstfault.recorder.supervisor.memory_shares import SharesWatch, proportion
from firstfault.recorder.supervisor.process_tree import ControlGroup, ProcessTree

pytestmark = pytest.mark.new_process

MIB = 2**20


def _files(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name).write_text(text)


def _proc(tmp_path, cgroup, mountinfo):
    _files(tmp_path / "proc", {"cgroup": cgroup, "mountinfo": mountinfo})
    return tmp_path / "proc"


def test_v2_takes_the_tightest_limit_above_and_leaves_out_the_page_cache(tmp_path):
    mount = tmp_path / "cg"
    memory = {"memory.max": "max\n", "memory.current": f"{90 * MIB}\n", "memory.stat": "anon 1\n"}
    _files(mount / "job" / "step", {**memory, "memory.events": "low 0\noom 2\noom_kill 1\n"})
    stat = f"anon {30 * MIB}\ninactive_file {40 * MIB}\nactive_file {20 * MIB}\n"
    _files(mount / "job", {"memory.max": f"{100 * MIB}\n", "memory.current": f"{95 * MIB}\n", "memory.stat": stat})
    proc = _proc(tmp_path, "0::/job/step\n", f"31 23 0:28 / {mount} rw,relatime shared:1 - cgroup2 cgroup2 rw\n")
    found = ControlGroup.own(proc).memory()
    assert (found.used, found.limit, found.oom_kills) == (35 * MIB, 100 * MIB, 1)


def test_v1_reads_its_own_names(tmp_path):
    mount = tmp_path / "cg" / "memory"
    contents = {
        "memory.limit_in_bytes": f"{64 * MIB}\n",
        "memory.usage_in_bytes": f"{60 * MIB}\n",
        "memory.stat": f"cache 1\ninactive_file 7\ntotal_inactive_file {8 * MIB}\ntotal_active_file {4 * MIB}\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    }
    _files(mount / "a b", contents)
    _files(mount, {"memory.limit_in_bytes": "9223372036854771712\n"})
    cgroup = "5:devices:/\n4:memory:/a b\n0::/\n"
    proc = _proc(
        tmp_path, cgroup, f"35 31 0:32 / {mount} rw - cgroup cgroup rw,memory\n38 31 0:41 / /u rw - cgroup2 c rw\n"
    )
    found = ControlGroup.own(proc).memory()
    assert (found.used, found.limit, found.oom_kills) == (48 * MIB, 64 * MIB, 3)


def test_in_a_container_that_hides_its_path_the_mount_is_the_group(tmp_path):
    mount = tmp_path / "cg"
    _files(mount, {"memory.max": f"{10 * MIB}\n", "memory.current": f"{5 * MIB}\n", "memory.events": "oom_kill 0\n"})
    proc = _proc(tmp_path, "0::/docker/abc\n", f"31 23 0:28 / {mount} rw - cgroup2 cgroup2 rw\n")
    found = ControlGroup.own(proc).memory()
    assert (found.used, found.limit, found.oom_kills) == (5 * MIB, 10 * MIB, 0)


def test_without_a_limit_the_host_is_the_limit_and_unreadable_counts_are_null(tmp_path):
    found = ControlGroup.own(tmp_path / "nothing here").memory()
    assert found.limit == psutil.virtual_memory().total
    assert found.oom_kills is None


def test_the_tree_counts_descendants_and_ends_with_the_script():
    child = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()']); "
        "print('up', flush=True); p.wait()"
    )
    script = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert script.stdout is not None
    script.stdout.readline()
    tree = ProcessTree(script.pid)
    first, second = tree.sample(), tree.sample()
    assert first is not None
    assert second is not None
    assert (first.processes, first.cpu_percent) == (2, None)
    assert second.rss_bytes > 2 * MIB
    assert second.cpu_percent is not None
    script.communicate(b"\n")
    assert tree.sample() is None


def test_a_real_run_has_a_sample_a_second(bench):
    bench.write("import time\nx = bytearray(80 << 20)\ntime.sleep(2.5)")
    recorded = bench.record("script.py")
    columns = ["time_ns", "processes", "rss_bytes", "cpu_percent", "memory_limit_bytes"]
    rows = read_rows(recorded.run, "system_samples", columns)
    assert rows.num_rows >= 3
    taken = rows["time_ns"].to_pylist()
    spaced = itertools.pairwise(taken[:-1])  # the last is at the end
    assert all(later - earlier > 0.5e9 for earlier, later in spaced)  # one that was late shortens the wait for the next
    assert rows["processes"].to_pylist() == [1] * rows.num_rows
    assert max(rows["rss_bytes"].to_pylist()) > 80 * MIB
    assert recorded.exit.memory_peak_bytes is not None
    assert recorded.exit.memory_peak_bytes > 80 * MIB


LOADERS = """
import pathlib, time, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        time.sleep(0.1)
        return torch.ones(4)
for batch in DataLoader(Numbers(), batch_size=4, num_workers=2):
    pathlib.Path("ready").touch()
"""


def test_loader_workers_and_what_is_shared_are_measured_apart(bench):
    bench.write(LOADERS)
    recorded = bench.record("script.py")
    columns = ["rss_bytes", "pss_bytes", "workers", "worker_private_bytes", "runnable", "threads"]
    rows = read_rows(recorded.run, "system_samples", columns).to_pylist()
    seen = [r for r in rows if r["workers"] == 2]
    assert seen
    for row in seen:
        assert 0 <= row["worker_private_bytes"] < row["pss_bytes"] < row["rss_bytes"]
    assert all(0 <= r["runnable"] <= r["threads"] for r in rows)


@pytest.mark.suite
def test_proportional_memory_is_asked_for_seldom_and_less_so_later():
    now = [0.0]

    def clock():
        now[0] += 0.01  # each reading of the clock: a look takes 10 ms
        return now[0]

    watch, times = SharesWatch(clock), []
    while now[0] < 60:
        if watch.look([os.getpid()]) is not None:
            times.append(now[0])
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert min(gaps) > 0.09
    assert proportion(Path("/proc/nobody")) is None
