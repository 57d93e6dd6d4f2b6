"""`firstfault run` reads plain arguments as typer would, and without it."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from firstfault.recorder import cli
from firstfault.recorder.base.plain_arguments import plain_arguments
from typer.testing import CliRunner


def _read_by_typer(words: list[str]) -> dict[str, Any]:
    """What typer calls the command with; only what is not a default."""
    taken: dict[str, Any] = {}
    app = typer.Typer(add_completion=False)
    cli.register(app)

    @functools.wraps(cli.run)
    def run(**given: Any) -> None:
        taken.update(given)

    app.registered_commands[0].callback = run
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return {name: value for name, value in taken.items() if value not in (None, False, [])}


@pytest.mark.parametrize(
    "line",
    [
        "train.py",
        "train.py --lr 0.1 --out there -o x",
        "-m package.train --help",
        "-o runs/a --quiet train.py",
        "--out=runs/a --name night --budget off --every 1 --debug -",
        "--include encoder.* --include head --exclude *.bias --without attention train.py --include no",
        "--hang-kill --hang-timeout 10m --on-nonfinite restore:3 --keep-secrets --disk-limit 2GB --keep 5 train.py",
        "--profile every=5,stacks --snapshots auto,20GB --memory-history 100000 --alert http://x/y train.py",
        "--resume runs/a train.py",
        "--budget 1% --budget 2% train.py",
    ],
)
def test_plain_arguments_are_those_of_typer(line: str) -> None:
    words = line.split()
    plain = plain_arguments(cli.run, words)
    assert plain is not None
    assert {name: value for name, value in plain.items() if value != []} == _read_by_typer(words)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "--quiet",
        "--nope train.py",
        "--out",
        "--out --quiet train.py",
        "--quiet=yes train.py",
        "-oq train.py",
        "-- train.py",
    ],
)
def test_all_else_is_left_to_typer(line: str) -> None:
    assert plain_arguments(cli.run, line.split()) is None


def test_a_script_starts_before_typer_is_loaded(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('here')\n")
    code = (
        "import sys; sys.argv[1:] = ['run', '--quiet', '--out', sys.argv[1], sys.argv[2]]\n"
        "import atexit; atexit.register(lambda: print(sorted({'typer', 'pydantic', 'rich'} & set(sys.modules))))\n"
        "from firstfault.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run"), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["here", "[]"])
