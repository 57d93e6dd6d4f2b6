"""Every training is recorded, however its script reaches torch; where that cannot be, a line says why."""

import gc
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from firstfault.analyzer import Trace
from firstfault.recorder.base import import_hooks

pytestmark = pytest.mark.new_process

SCRIPT = Path(__file__).parent / "scripts" / "reaching_torch.py"
LIBRARIES_FIRST = SCRIPT.with_name("libraries_first.py")

LIBRARIES = (
    "accelerate",
    "datasets",
    "diffusers",
    "gpytorch",
    "keras",
    "lightning",
    "monai",
    "peft",
    "ray",
    "sentence_transformers",
    "skorch",
    "stable_baselines3",
    "torch_geometric",
    "torchmetrics",
    "transformers",
    "trl",
)
"""What people import before torch. Those that need torchvision (timm, fastai, ultralytics) are missing: the build of it that
is installed from the package index cannot be imported beside torch for the CPU."""

THREE = ("asked-once", "unpickled", "imported-before-the-fork")
"""What most programs do, or what takes the most different paths through Python's import system."""

OTHERS = (
    "asked-for-a-submodule",
    "imported-in-a-thread",
    "lazily",
    "import",
    "asked-often",
    "asked-and-forgotten",
    "asked-by-the-finders-themselves",
    "executed-by-hand",
    "import-module",
    "in-a-thread",
    "imported-by-many-threads",
    "after-a-failed-import",
    "with-finders-of-its-own",
    "with-a-finder-that-asks-the-others",
    "with-a-path-finder-of-its-own",
    "in-a-forked-child",
    "in-a-child-forked-by-hand",
    "in-a-spawned-child",
    "imported-before-the-spawn",
    "in-a-child-of-the-fork-server",
    "in-a-subprocess",
    "in-the-place-of-the-script",
    "in-a-pool",
    "with-a-wrapped-import",
)

TRAIN = """
import torch
model = torch.nn.Linear(2, 1, bias=False)
def train():
    for _ in range(5):
        model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            model.weight -= 0.01 * model.weight.grad
            model.weight.grad = None
"""
"""Without an optimizer: the first one of a process loads torch._dynamo, which takes as long as torch itself."""


@pytest.mark.parametrize("way", [*THREE, *(pytest.param(way, marks=pytest.mark.suite) for way in OTHERS)])
def test_each_way_of_reaching_torch_records_all_steps(bench, way):
    recorded = bench.record(str(SCRIPT), way)
    assert recorded.returncode == 0, recorded.stderr.decode()
    with Trace(recorded.run) as trace:
        steps = trace.sql("SELECT step, loss FROM steps WHERE completed ORDER BY step")
    assert steps["step"].to_list() == list(range(20))
    assert recorded.stdout.decode().split() == [repr(loss) for loss in steps["loss"].to_list()]
    assert b"20 steps recorded" in recorded.stderr
    assert b"[" not in recorded.stderr  # no warning


@pytest.mark.suite
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_is_imported_before_torch_hides_no_step(bench, library):
    recorded = bench.record(str(LIBRARIES_FIRST), library)
    assert recorded.returncode == 0, recorded.stderr.decode()
    with Trace(recorded.run) as trace:
        steps = trace.sql("SELECT step, loss FROM steps WHERE completed ORDER BY step")
    assert steps["step"].to_list() == list(range(20))
    assert recorded.stdout.decode().split()[-20:] == [repr(loss) for loss in steps["loss"].to_list()]


def test_a_forked_child_of_a_training_that_trains_too_is_said_to_be_missing(bench):
    bench.write(
        """
import os, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train():
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
train()
if (child := os.fork()) == 0:
    train()
    os._exit(0)
os.waitpid(child, 0)
train()
"""
    )
    bench.forked = True  # how it reaches torch is not what this is about
    recorded = bench.record("script.py")
    assert recorded.returncode == 0
    assert recorded.stderr.count(b"[rank-taken]") == 1
    assert b"10 steps recorded" in recorded.stderr
    assert "1 further process trained" in (recorded.exit.note or "")


def test_a_forked_child_that_only_loads_data_is_not_mentioned(bench):
    bench.write(
        TRAIN
        + """
loader = torch.utils.data.DataLoader(torch.ones(8, 2), num_workers=1)
train()
for batch in loader:
    train()
"""
    )
    bench.forked = True
    recorded = bench.record("script.py")
    assert b"45 steps recorded" in recorded.stderr
    assert b"rank-taken" not in recorded.stderr


def test_a_zipapp_is_recorded(bench):
    with zipfile.ZipFile(bench.folder / "app.pyz", "w") as archive:
        archive.writestr("__main__.py", "import work\nwork.train()\n")
        archive.writestr("work.py", TRAIN)
    recorded = bench.record("app.pyz")
    assert (recorded.returncode, recorded.stdout) == (0, b"")
    assert b"5 steps recorded" in recorded.stderr


def test_a_shebang_script_that_another_starts_is_recorded(bench):
    script = bench.write(f"#!/usr/bin/env -S {sys.executable} -u\n{TRAIN}\ntrain()\n", "train")
    script.chmod(0o755)
    bench.write("import os, subprocess\nsubprocess.run([os.path.abspath('train')], check=True)")
    recorded = bench.record("script.py")
    assert recorded.returncode == 0, recorded.stderr.decode()
    assert b"5 steps recorded" in recorded.stderr


def test_a_sitecustomize_of_the_users_that_imports_torch_is_recorded(bench):
    bench.write("import torch", "lib/sitecustomize.py")
    bench.write(TRAIN + "train()")
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert b"5 steps recorded" in recorded.stderr


def test_a_torch_that_breaks_on_import_breaks_as_without_us(bench):
    bench.write(
        "import os\nraise OSError('libsomething.so.12: cannot open shared object file')", "lib/torch/__init__.py"
    )
    bench.write("import torch")
    plain = bench.plain("script.py", PYTHONPATH="lib")
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert recorded.returncode == plain.returncode == 1
    traceback, _, closing = recorded.stderr.decode().partition("firstfault: ")
    assert traceback == plain.stderr.decode()
    assert "nothing was recorded" in closing


def test_an_interpreter_without_firstfault_that_uses_torch_is_named(bench):
    venv.create(bench.folder / "inner", symlinks=True)
    inner = bench.folder / "inner" / "bin" / "python"
    bench.write("", "lib/torch.py")
    bench.write(f"import subprocess\nsubprocess.run([{str(inner)!r}, '-c', 'import torch; print(torch.__name__)'])")
    recorded = bench.record("script.py", PYTHONPATH=str(bench.folder / "lib"))
    assert recorded.stdout == b"torch\n"
    line = next(line for line in recorded.stderr.decode().splitlines() if "[not-attached]" in line)
    assert f"{inner} -m pip install 'firstfault[record]'" in line


def test_an_interpreter_without_firstfault_that_does_without_torch_is_left_alone(bench):
    venv.create(bench.folder / "inner", symlinks=True)
    inner = bench.folder / "inner" / "bin" / "python"
    bench.write(f"import subprocess\nsubprocess.run([{str(inner)!r}, '-c', 'import json; print(json.__name__)'])")
    recorded = bench.record("script.py")
    assert recorded.stdout == b"json\n"
    assert b"not-attached" not in recorded.stderr


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name of a module that can be imported, and what is left of the hooks is taken away."""
    (tmp_path / "reached_module.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "reached_module"
    sys.modules.pop("reached_module", None)
    import_hooks._actions.pop("reached_module", None)


@pytest.mark.parametrize("collects", [True, False])
def test_an_import_collects_no_garbage_and_leaves_the_collector_as_the_script_has_it(module, tmp_path, collects):
    during = []
    sys.during = during
    (tmp_path / "reached_module.py").write_text("import gc, sys\nsys.during.append(gc.isenabled())\n")
    import_hooks.after_import(module, lambda: during.append(gc.isenabled()))
    (gc.enable if collects else gc.disable)()
    try:
        __import__(module)
        assert during == [False, collects]
        assert gc.isenabled() == collects
    finally:
        gc.enable()
        del sys.during


def test_finders_that_ask_each_other_come_to_an_end(module, monkeypatch):
    done = []
    import_hooks.after_import(module, lambda: done.append(True))
    theirs = import_hooks._Finder()
    monkeypatch.setattr(sys, "meta_path", [theirs, *sys.meta_path])
    __import__(module)
    assert done == [True]


def test_what_others_have_put_over_the_usual_finder_stays(module, monkeypatch):
    from importlib.machinery import PathFinder

    monkeypatch.setattr(import_hooks, "_actions", {})
    import_hooks._uninstall()
    before = PathFinder.__dict__["find_spec"]
    done = []
    import_hooks.after_import(module, lambda: done.append(True))
    ours = PathFinder.find_spec

    @staticmethod
    def theirs(name, *rest):
        return ours(name, *rest)

    PathFinder.find_spec = theirs
    try:
        __import__(module)
        assert done == [True]
        assert PathFinder.__dict__["find_spec"] is theirs
    finally:
        PathFinder.find_spec = before


def test_a_loader_that_is_a_class_is_not_changed_for_other_modules(module, monkeypatch):
    from importlib.machinery import ModuleSpec

    class Loader:
        executed = 0

        @classmethod
        def create_module(cls, spec):
            return None

        @classmethod
        def exec_module(cls, module):
            cls.executed += 1

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return ModuleSpec(name, Loader) if name.startswith("reached_") else None

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    untouched = Loader.__dict__["exec_module"]
    done = []
    import_hooks.after_import(module, lambda: done.append(True))
    __import__(module)
    sys.modules.pop(module)
    assert (done, Loader.executed) == ([True], 1)
    assert Loader.__dict__["exec_module"] is untouched
