"""The script under `firstfault run` is the script under python: status, signals, output, environment."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from firstfault.recorder.storage.segments import completed_steps
from firstfault.schemas import read_exit
from firstfault.schemas.files.layout import segments

pytestmark = pytest.mark.new_process

ENDINGS = {
    "returns": ("pass", 0, "completed", None),
    "exits with 3": ("import sys; sys.exit(3)", 3, "exception", None),
    "raises": ("raise ValueError('no')", 1, "exception", None),
    "leaves at once with 5": ("import os; os._exit(5)", 5, "exception", None),
    "is killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "signal", "SIGKILL"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, "signal", "SIGSEGV"),
    "interrupts itself": ("raise KeyboardInterrupt", 130, "signal", "SIGINT"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_exit_status_is_the_scripts_own_and_exit_json_says_how(bench, ending):
    text, code, status, name = ENDINGS[ending]
    bench.write(text)
    recorded = bench.record("script.py")
    assert recorded.returncode == code
    assert (recorded.exit.status, recorded.exit.signal_name) == (status, name)
    assert recorded.exit.memory_peak_bytes is not None
    assert recorded.exit.memory_peak_bytes > 2**20


def test_a_status_without_an_exception_is_called_systemexit(bench):
    bench.write("import sys; sys.exit(3)")
    exit_ = bench.record("script.py").exit
    assert exit_.exit_code == 3
    assert exit_.exception is not None
    assert exit_.exception.type == "SystemExit"
    assert "3" in exit_.exception.message


OTHER_SIGNALS = [pytest.param(s, marks=pytest.mark.suite) for s in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, *OTHER_SIGNALS])
def test_a_signal_to_the_supervisor_reaches_the_script_once(bench, number, wait_for):
    bench.write(f"""
        import pathlib, signal, sys, time
        got = []
        signal.signal({int(number)}, lambda *a: got.append(a))
        pathlib.Path("ready").touch()
        while not got:
            time.sleep(0.01)
        time.sleep(0.2)
        sys.exit(40 + len(got))
    """)
    process = bench.start("script.py")
    wait_for((bench.folder / "ready").exists)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 41


def test_a_script_that_dies_of_sigterm_gives_143(bench, wait_for):
    bench.write("import pathlib, time; pathlib.Path('ready').touch(); time.sleep(60)")
    process = bench.start("script.py")
    wait_for((bench.folder / "ready").exists)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    exit_ = read_exit(bench.run)
    assert exit_ is not None
    assert (exit_.status, exit_.signal_name) == ("signal", "SIGTERM")


IDENTITY = """
import json, os, sys, signal
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "path": sys.path, "name": __name__, "file": __file__,
    "spec": getattr(__spec__, "name", None), "flags": str(sys.flags), "cwd": os.getcwd(),
    "tty": [os.isatty(i) for i in range(3)],
    "modules": [m for m in ("sitecustomize", "numpy", "pyarrow", "torch", "msgspec", "mmap") if m in sys.modules],
    "importer_cache": sorted(p for p in sys.path_importer_cache if "firstfault" in p or "inject" in p),
    "mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "sigint": str(signal.getsignal(signal.SIGINT)), "sigterm": str(signal.getsignal(signal.SIGTERM)),
    "fds": sorted(os.listdir("/proc/self/fd")),
}))
"""
ARGUMENTS = ("--help", "--out", "x y", "", "--", "-m", "ünï 名 🔥", "'\"$(ls)", "\udcff")


@pytest.mark.parametrize("target", [("script.py",), ("./script.py",), ("-m", "package.module"), ("-m", "script")])
def test_the_script_sees_what_plain_python_shows_it(bench, target):
    bench.write(IDENTITY)
    bench.write("", "package/__init__.py")
    bench.write(IDENTITY, "package/module.py")
    plain = json.loads(bench.plain(*target, *ARGUMENTS).stdout)
    recorded = json.loads(bench.record(*target, *ARGUMENTS).stdout)
    assert recorded == plain


def test_a_relative_pythonpath_and_its_order_are_kept(bench):
    bench.write(IDENTITY)
    path = os.pathsep.join(["lib", str(bench.folder / "other"), "lib"])
    plain = json.loads(bench.plain("script.py", PYTHONPATH=path).stdout)
    recorded = json.loads(bench.record("script.py", PYTHONPATH=path).stdout)
    assert recorded == plain


def test_output_passes_byte_for_byte(bench):
    bench.write("""
        import os, random
        random.seed(1)
        for i in range(200):
            os.write(1 + i % 2, random.randbytes(random.choice([0, 1, 7, 4096, 70_000])))
    """)
    plain, recorded = bench.plain("script.py"), bench.record("script.py")
    assert recorded.stdout == plain.stdout
    assert recorded.stderr.startswith(plain.stderr)
    assert recorded.stderr[len(plain.stderr) :].startswith(b"firstfault: nothing was recorded")
    assert recorded.stderr.count(b"\n", len(plain.stderr)) == 1


def test_lines_to_one_place_keep_their_order(bench):
    bench.write("import os\nfor i in range(2000): os.write(1 + i % 2, b'%d\\n' % i)")
    done = subprocess.run(
        bench.command("script.py"), cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.stdout.splitlines()[:2000] == [b"%d" % i for i in range(2000)]


def test_stdin_reaches_the_script(bench):
    bench.write("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])")
    assert bench.record("script.py", stdin=b"abc\x00\xff").stdout == b"\xff\x00cba"


def test_a_script_on_stdin_is_run(bench):
    assert bench.record("-", "a", stdin=b"import sys; print(sys.argv)").stdout == b"['-', 'a']\n"


def test_a_reader_that_leaves_early_ends_the_script_as_without_us(bench):
    bench.write("while True: print('x' * 1000)")
    shell = ["bash", "-c", '"$@" | head -c 10; exit ${PIPESTATUS[0]}', "bash"]
    plain = subprocess.run([*shell, sys.executable, "script.py"], cwd=bench.folder, capture_output=True, check=False)
    done = subprocess.run(
        [*shell, *bench.command("script.py")], cwd=bench.folder, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert b"BrokenPipeError" in done.stderr


def test_closed_standard_streams_harm_nothing(bench):
    bench.write("open('ran', 'w').write('yes')")
    command = ["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *bench.command("script.py")]
    assert subprocess.run(command, cwd=bench.folder, timeout=60, check=False).returncode == 0
    assert (bench.folder / "ran").read_text() == "yes"
    assert (bench.run / "output.log").read_bytes() == b""


def test_a_background_process_that_keeps_the_output_neither_holds_us_nor_loses_it(bench):
    bench.write(
        """
        import pathlib, time
        while not pathlib.Path("ended").exists():
            time.sleep(0.05)
        print("late", flush=True)
    """,
        "background.py",
    )
    bench.write("""
        import subprocess, sys
        subprocess.Popen([sys.executable, "background.py"])
        print("end", flush=True)
    """)
    out = bench.folder / "out.txt"
    with out.open("wb") as file:
        subprocess.run(bench.command("script.py"), cwd=bench.folder, stdout=file, timeout=60, check=True)
    assert out.read_text() == "end\n"
    (bench.folder / "ended").touch()
    deadline = time.monotonic() + 20
    while "late" not in out.read_text():
        assert time.monotonic() < deadline, "what the background process wrote was lost"
        time.sleep(0.05)


def test_modules_of_the_user_with_our_names_are_the_users(bench):
    names = ("analyzer/__init__.py", "attach.py", "recorder.py", "reports/__init__.py", "schemas.py", "signals.py")
    for name in names:
        bench.write(f"WHOSE = 'user: {name}'", name)
    bench.write("CUSTOM = 'user sitecustomize'", "lib/sitecustomize.py")
    bench.write("""
        import sys
        import analyzer, attach, recorder, reports, schemas, signals, sitecustomize, torch
        print(*(m.WHOSE for m in (analyzer, attach, recorder, reports, schemas, signals)), sitecustomize.CUSTOM)
        model = torch.nn.Linear(2, 1, bias=False)
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            with torch.no_grad():
                model.weight -= 0.1 * model.weight.grad
                model.weight.grad = None
    """)
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert recorded.stdout.decode() == " ".join(f"user: {name}" for name in names) + " user sitecustomize\n"
    assert b"3 steps recorded" in recorded.stderr


def test_a_users_broken_sitecustomize_is_reported_as_python_reports_it(bench):
    bench.write("1 / 0", "lib/sitecustomize.py")
    bench.write("print('ran')")
    plain = bench.plain("script.py", PYTHONPATH="lib")
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert recorded.stdout == plain.stdout == b"ran\n"
    assert plain.stderr.count(b"ZeroDivisionError") == 1
    assert recorded.stderr.count(b"ZeroDivisionError") == 2  # once in the script, once in our own process


def test_a_killed_supervisor_leaves_a_readable_run(bench, wait_for):
    bench.write("""
        import os, pathlib, time
        pathlib.Path("ready").write_text(str(os.getpid()))
        time.sleep(60)
    """)
    process = bench.start("script.py")
    wait_for(lambda: (bench.folder / "ready").exists() and bool((bench.folder / "ready").read_text()))
    wait_for(lambda: bool(segments(bench.run)))
    process.kill()
    process.communicate()
    os.kill(int((bench.folder / "ready").read_text()), signal.SIGKILL)
    assert read_exit(bench.run) is None
    assert (bench.run / "run.json").exists()


def test_the_supervisor_never_loads_torch_or_the_analysis(bench, wait_for):
    bench.write("import pathlib, time; pathlib.Path('ready').touch(); time.sleep(60)")
    process = bench.start("script.py")
    wait_for((bench.folder / "ready").exists)
    mapped = open(f"/proc/{process.pid}/maps").read()  # noqa: PTH123, SIM115
    process.terminate()
    process.communicate(timeout=60)
    assert "pyarrow" in mapped
    assert not [name for name in ("libtorch", "duckdb", "polars") if name in mapped]


def test_no_thread_of_the_supervisor_takes_a_signal_meant_for_the_script(bench, wait_for):
    bench.write("import pathlib, time; pathlib.Path('ready').touch(); time.sleep(60)")
    process = bench.start("script.py")
    wait_for((bench.folder / "ready").exists)
    blocked = []
    # the main thread is left out: while it waits for these signals the kernel shows them as not blocked
    for thread in set(os.listdir(f"/proc/{process.pid}/task")) - {str(process.pid)}:  # noqa: PTH208
        status = open(f"/proc/{process.pid}/task/{thread}/status").read()  # noqa: PTH123, SIM115
        blocked.append(int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")), 16))
    process.terminate()
    process.communicate(timeout=60)
    term = 1 << (signal.SIGTERM - 1)
    assert len(blocked) > 1
    assert all(mask & term for mask in blocked)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_the_recording_fills_leaves_the_script_alone_and_still_holds_the_exit_record(bench, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", small], check=False)  # noqa: S607
    if mounted.returncode:
        pytest.skip("root may not mount here")
    bench.write("""
        import torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(10)])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(400):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 16)).pow(2).mean()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                print(step, loss.item())
        raise SystemExit(3)
    """)
    bench.forked = True  # how the script starts is not the claim
    try:
        plain = bench.plain("script.py")
        bench.run = small / "run"
        recorded = bench.record("script.py")
        assert (recorded.returncode, recorded.stdout) == (3, plain.stdout)
        assert b"Traceback" not in recorded.stderr
        assert b"No space left on device" in recorded.stderr
        assert (recorded.exit.status, recorded.exit.exit_code) == ("exception", 3)
        assert 0 < completed_steps(recorded.run)[0] < 400
    finally:
        subprocess.run(["umount", small], check=True)  # noqa: S607


def test_sigchld_ignored_by_our_parent_does_not_lose_the_status(bench):
    bench.write("raise SystemExit(9)")
    command = ["bash", "-c", "trap '' CHLD; exec \"$@\"", "bash", *bench.command("script.py")]
    done = subprocess.run(command, cwd=bench.folder, env=bench.environment(), capture_output=True, check=False)
    assert done.returncode == 9
