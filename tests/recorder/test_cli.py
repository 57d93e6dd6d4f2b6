"""What cannot be started gives one line and status 2; what recorded nothing says why."""

import os
import shlex
import sys
from importlib.util import find_spec

import pytest
from firstfault.schemas import read_manifest

TRAIN = """
import os, sys, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def _one_line(recorded) -> str:
    lines = recorded.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert "Traceback" not in lines[0]
    return lines[0]


def test_a_missing_script_is_named_and_leaves_no_folder(bench):
    recorded = bench.record("trian.py")
    assert recorded.returncode == 2
    assert _one_line(recorded) == "firstfault: trian.py: no such script; check the path"
    assert not recorded.run.exists()


def test_a_missing_module_is_named_and_leaves_no_folder(bench):
    recorded = bench.record("-m", "no_such_package.train")
    assert recorded.returncode == 2
    assert "'no_such_package.train'" in _one_line(recorded)
    assert not recorded.run.exists()


def test_a_module_behind_two_dashes_is_run_as_before_them(bench):
    bench.write("", "package/__init__.py")
    bench.write(TRAIN, "package/train.py")
    recorded = bench.record("--", "-m", "package.train", "3")
    assert (recorded.returncode, recorded.stdout) == (0, b"")
    assert _one_line(recorded).startswith("firstfault: 3 steps recorded")
    assert read_manifest(recorded.run).script == "-m package.train"


def test_a_script_behind_two_dashes_is_run_as_without_them(bench):
    bench.write(TRAIN)
    assert _one_line(bench.record("--", "script.py", "2")).startswith("firstfault: 2 steps recorded")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "-m"], "-m: no module is named; give it as you would give it to python -m"),
        (
            ["python", "train.py", "--lr", "1 2"],
            f"python: leave it away, the script is run with {sys.executable}; write `firstfault run train.py --lr '1 2'`",
        ),
        (
            ["--", sys.executable, "-m", "package.train"],
            f"{sys.executable}: leave it away, the script is run with {sys.executable}; write `firstfault run -m package.train`",
        ),
        (
            ["torchrun", "-n", "2"],
            "torchrun: no such script; it is a command of Python, so write `firstfault run -m torch.distributed.run -n 2`",
        ),
        (
            ["launch", "train.py"],
            "launch: no such script; it is a command of Python, so write `firstfault run {launch} train.py`",
        ),
        (  # not on the path, where its environment is not activated
            ["accelerate", "launch", "train.py"],
            "accelerate: no such script; it is a command of Python, so write"
            " `firstfault run -m accelerate.commands.accelerate_cli launch train.py`"
            if find_spec("accelerate")
            else "accelerate: no such script; put the command in front: `accelerate … firstfault run SCRIPT`",
        ),
        (
            ["mpirun", "-n", "2", "train.py"],
            "mpirun: no such script; put the command in front: `mpirun … firstfault run SCRIPT`",
        ),
    ],
)
def test_a_command_in_place_of_a_script_is_answered_with_what_to_write(bench, words, said):
    commands = bench.folder / "bin"
    for name, first in (
        ("python", "#!/bin/sh"), ("torchrun", "#!/x/python"), ("launch", "#!/x/bin/python3"), ("mpirun", "#!/bin/sh")
    ):  # fmt: skip
        path = bench.write(first + "\n", f"bin/{name}")
        path.chmod(0o755)
    recorded = bench.record(*words, PATH=f"{commands}:{os.environ['PATH']}")
    assert (recorded.returncode, recorded.stdout) == (2, b"")
    assert _one_line(recorded) == "firstfault: " + said.replace("{launch}", shlex.quote(str(commands / "launch")))
    assert not recorded.run.exists()


def test_a_used_folder_is_not_overwritten(bench):
    bench.write("print('ran')")
    bench.run.mkdir()
    (bench.run / "precious").write_text("data")
    recorded = bench.record("script.py")
    assert (recorded.returncode, recorded.stdout) == (2, b"")
    assert f"{bench.run}: is not empty" in _one_line(recorded)
    assert [p.name for p in bench.run.iterdir()] == ["precious"]


def test_a_folder_that_cannot_be_made_is_named(bench):
    bench.write("print('ran')")
    bench.run.write_text("a file")
    recorded = bench.record("script.py")
    assert (recorded.returncode, recorded.stdout) == (2, b"")
    assert f"{bench.run}: is a file" in _one_line(recorded)


def test_an_option_after_its_place_gives_a_hint(bench):
    recorded = bench.record("--", "--name")
    assert recorded.returncode == 2
    assert "options of firstfault come before the script" in _one_line(recorded)


@pytest.mark.new_process
def test_without_torch_the_extra_is_named(bench):
    bench.write("print('ran')")
    # a finder in front of all others plays an installation without torch
    bench.write(
        """
        import sys
        class NoTorch:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ModuleNotFoundError(name="torch")
        sys.meta_path.insert(0, NoTorch())
        """,
        "lib/sitecustomize.py",
    )
    recorded = bench.record("script.py", PYTHONPATH="lib")
    assert (recorded.returncode, recorded.stdout) == (2, b"")
    assert "pip install 'firstfault[record]'" in _one_line(recorded)
    assert not recorded.run.exists()


@pytest.mark.new_process
def test_a_script_without_torch_keeps_its_status_and_the_reason_is_given(bench):
    bench.write("raise SystemExit(7)")
    recorded = bench.record("script.py")
    assert recorded.returncode == 7
    assert "nothing was recorded: no process of the script was seen to load torch" in _one_line(recorded)


@pytest.mark.parametrize(("text", "status"), [("import torch", 0), ("import torch, sys; sys.exit(4)", 4)])
def test_a_script_that_trains_nothing_keeps_its_status_and_the_reason_is_given(bench, text, status):
    bench.write(text)
    recorded = bench.record("script.py")
    assert recorded.returncode == status
    assert "nothing was recorded" in _one_line(recorded)


def test_a_script_that_dies_in_its_first_step_is_told_so(bench):
    bench.write("import torch\ntorch.nn.Linear(2, 1)(torch.ones(1, 2))\nraise SystemExit(6)")
    recorded = bench.record("script.py")
    assert recorded.returncode == 6
    assert "before its first training step was complete" in _one_line(recorded)


def test_the_closing_line_counts_the_steps_and_can_be_left_out(bench):
    bench.write(TRAIN)
    assert _one_line(bench.record("script.py", "3")).startswith(
        "firstfault: 3 steps recorded; next: firstfault diagnose "
    )
    bench.run = bench.run.with_name("second")
    assert bench.record("script.py", "1", options=["--quiet"]).stderr == b""


def test_the_default_folder_lies_below_the_current_one_under_the_given_name(bench):
    bench.write("import sys; sys.exit(0)")
    import subprocess

    command = [sys.executable, "-m", "firstfault", "run", "--name", "first try", "script.py"]
    subprocess.run(command, cwd=bench.folder, env=bench.environment(), check=True, capture_output=True)
    (run,) = (bench.folder / "firstfault-runs").iterdir()
    assert "-first-try-" in run.name
    assert (run / "exit.json").exists()


@pytest.mark.new_process
@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["spawn", *(pytest.param(method, marks=pytest.mark.suite) for method in ("fork", "forkserver"))]
)
def test_children_that_python_spawns_or_forks_are_recorded_or_left_alone_but_never_harmed(bench, method):
    bench.write("""
        import sys, torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return torch.tensor([float(i), float("inject" in "".join(sys.path))])

        if __name__ == "__main__":
            loader = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context=sys.argv[1])
            weight = torch.zeros(1, requires_grad=True)
            for batch in loader:
                (weight * batch).sum().backward()
                with torch.no_grad():
                    weight -= 0.0 * weight.grad
                    weight.grad = None
                print(batch.tolist())
    """)
    recorded = bench.record("script.py", method)
    assert recorded.stdout.decode() == "[[0.0, 0.0], [1.0, 0.0]]\n[[2.0, 0.0], [3.0, 0.0]]\n"
    assert recorded.returncode == 0
    assert _one_line(recorded).startswith("firstfault: 2 steps recorded")
