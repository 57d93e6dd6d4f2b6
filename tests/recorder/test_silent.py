"""A run under which nothing can be recorded says so while it goes on, on its last line and in the verdict, with the reason that
was checked; a script that only prepares or evaluates is told nothing that is not true."""

import json
import shlex
import subprocess
import sys
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.language import say as say_of_analyzer
from firstfault.recorder.storage.segments import completed_steps, read_rows
from firstfault.recorder.supervisor.torch_process import INJECT, TorchProcess, why_unrecorded
from firstfault.schemas.files.unrecorded import NO_TRAINING, REASONS, TRAINING_BEGAN, UNRECORDED, process_notes

pytestmark = pytest.mark.new_process

SILENT_AFTER_S = 6.0
"""Instead of the usual 40 s. Importing torch on a busy machine takes some seconds, in which nothing can be attached yet."""

SUPERVISE = """
import sys
from pathlib import Path
from firstfault.recorder.supervisor import signals
before = signals.block()
from firstfault.recorder.cli import _say_what_was_recorded
from firstfault.recorder.storage.run_folder import create_run
from firstfault.recorder.supervisor.supervise import command_of, supervise
command = command_of(sys.argv[2], [], module=False)
run = create_run(Path(sys.argv[1]), argv=command, script=sys.argv[2])
status = supervise(run, command, before, silent_after_s=float(sys.argv[3]))
_say_what_was_recorded(run, quiet=False)
sys.exit(status)
"""
"""What `firstfault run` does, with a shorter patience."""

STEP = """
    model(torch.ones(2, 4)).sum().backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
            weight.grad = None
"""
"""By hand: the first optimizer of a process loads torch._dynamo, which takes as long as torch itself."""

TRAIN = f"""
import sys, torch
model = torch.nn.Linear(4, 1)
for _ in range(5):
{STEP}
"""

UNTIL_SAID = """
import glob, json, os, time
def said():
    paths = glob.glob(os.environ["TEST_RUN"] + "/journal/supervisor/step_values-*.arrows")
    return any(b"events" in open(path, "rb").read() for path in paths)
deadline = time.monotonic() + 200
"""
"""Go on until the supervisor has said something, so that no test sleeps for a fixed time."""

TRAIN_UNTIL_SAID = f"""
{UNTIL_SAID}
import torch
model = torch.nn.Linear(4, 1)
while not said() and time.monotonic() < deadline:
    time.sleep(0.005)  # its import has computed enough to be looked at
{STEP}
"""

LAUNCHERS = {
    "-I": ("[sys.executable, '-I', 'child.py'], env=os.environ", "python-flag", "it was started with -I"),
    "-S": ("[sys.executable, '-S', 'child.py'], env=os.environ | {{'EXTRA': {site!r}}}", "python-flag", "with -S"),
    "-E": ("[sys.executable, '-BE', 'child.py'], env=os.environ", "python-flag", "it was started with -E"),
    "an environment of its own": (
        "[sys.executable, 'child.py'], env={{'TEST_RUN': os.environ['TEST_RUN']}}",
        "no-run-variable",
        "has no FIRSTFAULT_RUN",
    ),
    "PYTHONPATH set anew": (
        "[sys.executable, 'child.py'], env=os.environ | {{'PYTHONPATH': 'lib'}}",
        "pythonpath",
        "its PYTHONPATH does not hold",
    ),
    "a sitecustomize in front": (
        "[sys.executable, 'child.py'], env=os.environ | {{'PYTHONPATH': 'lib' + os.pathsep + os.environ['PYTHONPATH']}}",
        "other-sitecustomize",
        "lib/sitecustomize.py comes before firstfault's",
    ),
}


def supervised(bench, script: str, after_s: float = SILENT_AFTER_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SUPERVISE, str(bench.run), script, str(after_s)],
        cwd=bench.folder,
        env=bench.environment(TEST_RUN=str(bench.run)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def events(run: Path) -> list[tuple[str, dict]]:
    rows = read_rows(run, "events", ["rank", "event", "detail"])
    found = zip(*(rows[c].to_pylist() for c in rows.column_names), strict=True)
    return [(event, json.loads(detail or "{}")) for rank, event, detail in found if rank == -1]


def why(run: Path) -> list[str]:
    with Trace(run) as trace:
        verdict = diagnose(trace)
    return [n.why for n in verdict.not_evaluable if n.name == "recording-incomplete"]


IN_EVERY_LANE = {"-I"}
"""The other reasons are read from the process in `test_the_reason_is_read_from_how_the_process_was_started` everywhere."""


@pytest.mark.parametrize(
    "launcher", [pytest.param(name, marks=[] if name in IN_EVERY_LANE else pytest.mark.suite) for name in LAUNCHERS]
)
def test_a_child_that_trains_unrecorded_is_said_while_it_trains_and_afterwards_with_the_checked_reason(bench, launcher):
    call, reason, words = LAUNCHERS[launcher]
    site = str(Path(pytest.__file__).parents[1])
    bench.write("", "lib/sitecustomize.py")
    head = "import os, sys\nif 'EXTRA' in os.environ: sys.path.append(os.environ['EXTRA'])\n"
    bench.write(head + TRAIN_UNTIL_SAID, "child.py")
    bench.write(f"import os, subprocess, sys\nsubprocess.run({call.format(site=site)}, check=True)")

    done = supervised(bench, "script.py")

    assert done.returncode == 0, done.stderr
    during, last = done.stderr.splitlines()
    assert during.startswith("firstfault: [unrecorded-process] process ")
    assert "child.py) has torch loaded and is not recorded: " in during
    assert words in during
    assert last.startswith("firstfault: nothing was recorded: process ")
    assert words in last
    ((event, detail),) = events(bench.run)
    assert (event, detail["reason"]) == (UNRECORDED, reason)
    (first, *_) = why(bench.run)
    assert words in first
    assert REASONS[reason].remedy.format_map(detail) in first


@pytest.mark.suite
def test_a_script_that_only_prepares_data_is_told_no_more_than_is_true(bench):
    bench.write(UNTIL_SAID + "import torch\nwhile not said() and time.monotonic() < deadline:\n    torch.ones(9).sum()")
    done = supervised(bench, "script.py")
    during, last = done.stderr.splitlines()
    assert "nothing is recorded yet" in during
    assert "no forward with gradients, no backward and no optimizer step has been seen in it" in during
    assert "this is expected while data is prepared or a model is evaluated" in during
    assert "torch was imported, and no forward with gradients, no backward and no optimizer step was seen" in last
    assert "nothing is recorded yet" in why(bench.run)[0]


@pytest.mark.suite
def test_a_script_that_evaluates_with_gradients_on_is_told_which_part_is_missing(bench):
    model = "import torch\nmodel = torch.nn.Linear(4, 1)"
    bench.write(f"{UNTIL_SAID}\n{model}\nwhile not said() and time.monotonic() < deadline: model(torch.ones(2, 4))")
    done = supervised(bench, "script.py")
    during, last = done.stderr.splitlines()
    assert "a model was called, and no backward and no optimizer step has been seen in it" in during
    assert "the script ended before its first training step was complete" in last


@pytest.mark.suite
def test_a_script_that_leaves_every_update_out_is_told_of_its_batches(bench):
    bench.write("import torch\nmodel = torch.nn.Linear(4, 1)\nfor _ in range(40): model(torch.ones(2, 4)).sum()")
    supervised(bench, "script.py")
    (said,) = why(bench.run)
    assert said.startswith("40 batches went through the model with gradients, and neither a backward nor a step")


@pytest.mark.suite
def test_a_training_that_begins_late_is_said_to_have_begun_and_its_verdict_does_not_mention_the_wait(bench):
    prepare = "import torch\nwhile not said() and time.monotonic() < deadline: pass\nsteps = 0"
    train = """
model = torch.nn.Linear(4, 1)
def began():
    paths = glob.glob(os.environ["TEST_RUN"] + "/journal/supervisor/step_values-*.arrows")
    return any(b"training-began" in open(p, "rb").read() for p in paths)
while not (began() and steps > 5) and time.monotonic() < deadline:
    steps += 1
    time.sleep(0.01)
"""
    bench.write(UNTIL_SAID + prepare + train + STEP)
    done = supervised(bench, "script.py")
    first, second, last = done.stderr.splitlines()
    assert "nothing is recorded yet" in first
    assert second == "firstfault: training has begun, and is recorded"
    assert "steps recorded" in last
    assert [event for event, _ in events(bench.run)] == [NO_TRAINING, TRAINING_BEGAN]
    assert why(bench.run) == []


@pytest.mark.suite
def test_workers_and_forks_of_a_recorded_training_are_not_called_unrecorded(bench):
    bench.write("""
        import os, time, torch
        class Busy(torch.utils.data.Dataset):
            def __len__(self): return 100_000
            def __getitem__(self, i):
                end = time.monotonic() + 0.005  # enough to be taken for one that computes
                while time.monotonic() < end: pass
                time.sleep(0.015)
                return torch.ones(4)
        if __name__ == "__main__":
            model = torch.nn.Linear(4, 1)
            forked, spawned = (torch.utils.data.DataLoader(Busy(), batch_size=8, num_workers=1, multiprocessing_context=c)
                               for c in ("fork", "spawn"))
            end = None
            for a, b in zip(forked, spawned):
                end = end or time.monotonic() + 12  # both workers are there, longer than the supervisor waits and looks away
                model(a + b).sum().backward()
                with torch.no_grad():
                    for weight in model.parameters():
                        weight -= 0.1 * weight.grad
                        weight.grad = None
                if time.monotonic() > end:
                    break
    """)
    done = supervised(bench, "script.py")
    assert done.returncode == 0, done.stderr
    assert "steps recorded; next" in done.stderr
    assert [detail for event, detail in events(bench.run) if event == UNRECORDED] == []
    assert len(process_notes(bench.run)) == 1


def test_an_unrecorded_helper_beside_a_recorded_training_stands_in_the_verdict(bench):
    bench.write(TRAIN_UNTIL_SAID, "child.py")
    start = "import subprocess, sys\nsubprocess.run([sys.executable, '-I', 'child.py'], check=True)"
    bench.write(TRAIN + start)
    done = supervised(bench, "script.py")
    assert "5 steps recorded; next" in done.stderr
    assert "has torch loaded and is not recorded: it was started with -I" in why(bench.run)[0]


def test_a_short_child_is_named_by_the_last_line_only(bench):
    bench.write(TRAIN + "import time; time.sleep(2.5)", "child.py")
    bench.write("import subprocess, sys\nsubprocess.run([sys.executable, '-I', 'child.py'], check=True)")
    done = supervised(bench, "script.py", after_s=40)
    (last,) = done.stderr.splitlines()
    assert "nothing was recorded: process " in last
    assert "it was started with -I" in last


def test_without_torch_the_last_line_and_the_verdict_say_what_was_looked_for(bench):
    bench.write("print('ran')")
    recorded = bench.record("script.py")
    assert b"nothing was recorded: no process of the script was seen to load torch" in recorded.stderr
    assert recorded.exit.torch_processes == 0
    assert "put `firstfault run` in front of the command that trains" in why(bench.run)[0]


def test_a_part_that_switched_itself_off_is_named_by_the_last_line_and_the_verdict(bench):
    bench.write(
        "from firstfault.recorder import attach\n"
        "original = attach.attach\n"
        "def patched(run):\n"
        "    import firstfault.recorder.loop.lr_schedulers, firstfault.recorder.loop.optimizers as o\n"
        "    def broken(*a, **k): raise RuntimeError('made to fail')\n"
        "    o.OptimizerWatch.after_backward = broken\n"
        "    return original(run)\n"
        "attach.attach = patched\n" + TRAIN
    )
    recorded = bench.record("script.py")
    assert recorded.returncode == 0
    last = recorded.stderr.decode().splitlines()[-1]
    assert "a part of the recorder switched itself off: backward (RuntimeError: made to fail)" in last
    with Trace(bench.run) as trace:
        verdict = diagnose(trace)
    said = [n.why for n in verdict.not_evaluable] + [c.message for c in verdict.causes]
    assert any("backward" in s and "switched itself off" in s and "made to fail" in s for s in said), said


def test_a_recorder_that_cannot_attach_is_named_by_the_last_line_and_the_verdict(bench):
    bench.write("raise ImportError('broken pyarrow')", "lib/pyarrow/__init__.py")
    bench.write("import sys; sys.path.insert(0, 'lib')\n" + TRAIN)
    recorded = bench.record("script.py")
    assert recorded.returncode == 0
    last = recorded.stderr.decode().splitlines()[-1]
    assert last.startswith("firstfault: nothing was recorded: ")
    assert "ImportError: broken pyarrow" in last
    assert "ImportError: broken pyarrow" in why(bench.run)[0]


def test_a_numpy_that_is_too_old_for_pyarrow_is_named_with_the_way_out(bench):
    bench.write("raise ImportError('pyarrow requires NumPy 2.0 or newer, found 1.26.4')", "lib/pyarrow/__init__.py")
    bench.write("import sys; sys.path.insert(0, 'lib')\n" + TRAIN)
    recorded = bench.record("script.py")
    assert recorded.returncode == 0
    first, *_, last = recorded.stderr.decode().splitlines()
    assert "pip install 'pyarrow<26'" in first
    assert "pip install 'pyarrow<26'" in last


@pytest.mark.parametrize(
    ("command", "run", "path", "expected"),
    [
        (("python", "train.py"), "/r", (str(INJECT),), "no-firstfault"),
        (("python", "-X", "dev", "-I", "train.py"), "/r", (str(INJECT),), "python-flag"),
        (("python", "-Wignore", "train.py", "-I"), "/r", (str(INJECT),), "no-firstfault"),
        (("python", "-m", "train", "-S"), "/r", (str(INJECT),), "no-firstfault"),
        (("python", "-c", "pass", "-E"), "/r", (str(INJECT),), "no-firstfault"),
        (("python", "-um", "train"), "/r", (), "pythonpath"),
        (("python", "-sE", "train.py"), "/r", (), "python-flag"),
        (("python", "train.py"), None, (str(INJECT),), "no-run-variable"),
    ],
)
def test_the_reason_is_read_from_how_the_process_was_started(tmp_path, command, run, path, expected):
    library = tmp_path / "site-packages" / "torch" / "lib" / "libtorch_cpu.so"
    process = TorchProcess(1, command, library, "7f00", python=True, run=run, python_path=path, site=library.parents[2])
    assert why_unrecorded(process, None)[0] == expected


def test_a_program_without_python_and_a_failure_that_was_noted_come_first(tmp_path):
    library = tmp_path / "libtorch_cpu.so"
    process = TorchProcess(
        1, ("serve",), library, "7f00", python=False, run="/r", python_path=(str(INJECT),), site=tmp_path
    )
    assert why_unrecorded(process, None) == ("no-python", "libtorch_cpu.so")
    assert why_unrecorded(process, "OSError: x") == ("attach-failed", "OSError: x")


def test_every_reason_and_remedy_has_its_chinese():
    known = say_of_analyzer.of("zh")
    assert [s for reason in REASONS.values() for s in reason if s not in known] == []


# -- odd ways to start a training: recorded, or one line that says why not


def test_a_script_that_replaces_the_finders_before_it_imports_torch_is_recorded(bench):
    bench.write(
        textwrap.dedent("""
            import sys
            from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
            sys.meta_path = [BuiltinImporter, FrozenImporter, PathFinder]
        """)
        + TRAIN
    )
    assert completed_steps(bench.record("script.py").run) == {0: 5}


@pytest.mark.suite
def test_a_script_with_a_finder_of_its_own_in_front_is_recorded(bench):
    bench.write(
        textwrap.dedent("""
            import sys
            from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
            class Own:
                @staticmethod
                def find_spec(name, path=None, target=None):
                    return PathFinder.find_spec(name, path, target)
            sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Own]
        """)
        + TRAIN
    )
    assert completed_steps(bench.record("script.py").run) == {0: 5}


@pytest.mark.suite  # as in test_attaching.py
def test_a_sitecustomize_of_the_users_own_that_imports_torch_is_recorded(bench):
    bench.write("import torch", "lib/sitecustomize.py")
    bench.write(TRAIN)
    assert completed_steps(bench.record("script.py", PYTHONPATH="lib").run) == {0: 5}


@pytest.mark.suite  # as in test_attaching.py
def test_a_zipapp_is_recorded(bench):
    with zipfile.ZipFile(bench.folder / "train.pyz", "w") as archive:
        archive.writestr("__main__.py", TRAIN)
    assert completed_steps(bench.record("train.pyz").run) == {0: 5}


@pytest.mark.suite
def test_a_zipapp_with_a_shebang_line_is_recorded(bench):
    with (bench.folder / "train.pyz").open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("__main__.py", TRAIN)
    assert completed_steps(bench.record("train.pyz").run) == {0: 5}


@pytest.mark.suite  # the first one as in test_attaching.py
@pytest.mark.parametrize(
    "launch",
    [
        "['./train']",
        "['env', 'A=1', 'bash', '-c', 'exec ./train']",
    ],
)
def test_a_script_started_by_its_shebang_line_is_recorded(bench, launch):
    script = bench.write(f"#!/usr/bin/env -S {shlex.quote(sys.executable)} -u\n{TRAIN}", "train")
    script.chmod(0o755)
    bench.write(f"import subprocess\nsubprocess.run({launch}, check=True)")
    assert completed_steps(bench.record("script.py").run) == {0: 5}


def test_an_executable_that_is_no_python_source_is_refused_in_one_line(bench):
    script = bench.write("#!/bin/sh\nexec python train.py\n", "launch.sh")
    script.chmod(0o755)
    recorded = bench.record("launch.sh")
    assert recorded.returncode == 2
    (line,) = recorded.stderr.decode().splitlines()
    assert line == (
        "firstfault: launch.sh: is a script for /bin/sh, not for python; give the Python script that trains, or write"
        " `firstfault run` into launch.sh in place of python"
    )
    assert not bench.run.exists()


@pytest.mark.suite
def test_a_wrapper_like_conda_run_is_recorded(bench):
    # as conda does it: a shell script of its own in a temporary folder, sourced in a fresh shell, output captured
    bench.write(TRAIN, "train.py")
    bench.write(f"""
        import os, subprocess, tempfile
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as script:
            script.write('export CONDA_PREFIX=/opt/env\\nexport PATH="/opt/env/bin:$PATH"\\n')
            script.write({shlex.quote(sys.executable)!r} + " train.py\\n")
        done = subprocess.run(["/bin/bash", script.name], capture_output=True, text=True)
        print(done.stdout, end="")
        raise SystemExit(done.returncode)
    """)
    assert completed_steps(bench.record("script.py").run) == {0: 5}


@pytest.mark.suite
def test_a_virtual_environment_inside_another_that_sees_its_packages_is_recorded(bench):
    make_environment(bench.folder / "inner", sees=True)
    bench.write(TRAIN, "train.py")
    bench.write("import subprocess\nsubprocess.run(['inner/bin/python', 'train.py'], check=True)")
    assert completed_steps(bench.record("script.py").run) == {0: 5}


@pytest.mark.suite
def test_a_virtual_environment_with_another_torch_and_without_firstfault_is_named(bench):
    site = make_environment(bench.folder / "inner", sees=False)
    outer = Path(torch.__file__).parents[1]
    for entry in outer.iterdir():
        if "firstfault" not in entry.name and entry.suffix != ".pth" and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    bench.write(TRAIN + "import time; time.sleep(3)", "train.py")
    bench.write("import subprocess\nsubprocess.run(['inner/bin/python', 'train.py'], check=True)")
    recorded = bench.record("script.py")
    assert recorded.returncode == 0, recorded.stderr
    last = recorded.stderr.decode().splitlines()[-1]
    assert "no firstfault is installed beside its torch in " in last
    assert "install firstfault[record] there" in last


def test_a_torch_that_breaks_on_import_gives_the_scripts_own_traceback_and_one_line(bench):
    bench.write("raise OSError('libcudart.so.13: cannot open shared object file')", "lib/torch/__init__.py")
    bench.write(TRAIN)
    plain = bench.plain("script.py", PYTHONPATH="lib")
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert recorded.returncode == plain.returncode == 1
    ours = recorded.stderr.decode().splitlines()
    assert ours[:-1] == plain.stderr.decode().splitlines()
    assert ours[-1].startswith(
        "firstfault: nothing was recorded: importing torch failed with OSError: libcudart.so.13: cannot open shared object"
    )
    assert "importing torch failed with OSError: libcudart.so.13" in why(bench.run)[0]


def test_a_torch_that_is_missing_only_in_the_child_is_the_scripts_own_error(bench):
    make_environment(bench.folder / "inner", sees=False)
    bench.write(TRAIN, "train.py")
    bench.write("import subprocess, sys\nsys.exit(subprocess.run(['inner/bin/python', 'train.py']).returncode)")
    recorded = bench.record("script.py")
    assert recorded.returncode == 1
    *theirs, last = recorded.stderr.decode().splitlines()
    assert theirs[-1] == "ModuleNotFoundError: No module named 'torch'"
    assert not [line for line in theirs if line.startswith("firstfault:")]
    assert "no process of the script was seen to load torch" in last


@pytest.mark.suite
def test_a_first_import_that_fails_and_a_second_that_works_is_recorded(bench):
    bench.write(
        textwrap.dedent("""
            import sys
            sys.modules["torch._C"] = None
            try:
                import torch
            except ImportError:
                del sys.modules["torch._C"]
            for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
                del sys.modules[name]
        """)
        + TRAIN
    )
    assert completed_steps(bench.record("script.py").run) == {0: 5}


def make_environment(folder: Path, *, sees: bool) -> Path:
    """A virtual environment made from the one of this test; ``sees`` its packages, or none. Its site-packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    if sees:
        paths = [p for p in sys.path if p.endswith("site-packages")]
        (site / "outer.pth").write_text("".join(f"import site; site.addsitedir({p!r})\n" for p in paths), "utf-8")
    return site
