"""The house keeps what its pages promise: commands, versions, layers, hooks."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import cli_page
import pytest
from firstfault.application import ROOMS, build_app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("**/*.md")),
)


def _requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [r for group in project["optional-dependencies"].values() for r in group]
    return [re.split(r"[\[<>=!~ ;]", r)[0] for r in project["dependencies"] + extras]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _commands_in_readme() -> list[str]:
    """Lines of the README's code blocks that call firstfault, without their comments."""
    found = re.findall(r"^    (firstfault .*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return [line.partition(" #")[0].strip() for line in found]


@pytest.mark.parametrize("line", _commands_in_readme())
def test_a_command_of_the_readme_exists_with_its_options(line):
    words = shlex.split(line.replace("[", " ").replace("]", " "))
    command = words[1]
    assert command in ROOMS
    own = words[2:]
    if command == "run":  # what follows the script is the script's
        script = next((i for i, word in enumerate(own) if word.endswith(".py")), len(own))
        own = own[:script]
    options = [word for word in own if word.startswith("-")]
    shown = CliRunner().invoke(build_app(command), [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0
    for option in options:
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown.output), f"{command} has no {option}"


def test_the_page_of_commands_is_up_to_date_and_names_every_command():
    written = cli_page.PAGE.read_text(encoding="utf-8")
    assert written == cli_page.page(), "python tests/house/cli_page.py writes it again"
    assert set(re.findall(r"^## firstfault (\S+)$", written, re.MULTILINE)) == set(ROOMS)


def test_the_readme_fits_one_screen():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\(([^)#:]+)[^):]*\)", (ROOT / page).read_text("utf-8"))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_make_targets_of_the_pages_exist():
    named = {t for page in PAGES for t in re.findall(r"^    make ([a-z]+)", (ROOT / page).read_text(), re.MULTILINE)}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets


def test_every_dependency_has_an_exact_version_and_no_address():
    text = (ROOT / "constraints.txt").read_text()
    pins = dict(line.split("==") for line in text.splitlines() if line and not line.startswith("#"))
    assert {_normal(r) for r in _requirements()} - {"firstfault"} <= {_normal(name) for name in pins}
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins.values())
    assert "://" not in text


@pytest.mark.suite  # `make test` runs the same command beside the tests: see the last test here
def test_the_layers_hold():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("room", ["loop", "watches"])
def test_every_module_of_the_training_step_has_a_test_file_of_its_name(room):
    modules = {file.stem for file in (ROOT / "recorder" / room).glob("*.py")} - {"__init__"}
    tests = {file.stem.removeprefix("test_") for file in (ROOT / "tests" / "recorder").glob("test_*.py")}
    assert len(modules) > 15
    assert modules - tests == set()


def test_the_top_of_the_recorder_is_a_map_and_no_heap():
    assert len(list((ROOT / "recorder").glob("*.py"))) <= 10


def test_the_change_log_of_one_version_is_short():
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert versions
    assert all(len(re.findall(r"^- ", version, re.MULTILINE)) <= 15 for version in versions)


def test_the_environment_variable_is_spelled_alike_where_it_must_be_spelled_twice():
    from firstfault.recorder import attach
    from firstfault.schemas.files import layout

    assert attach.ENV_RUN == layout.ENV_RUN
    assert f'"{layout.ENV_RUN}"' in (ROOT / "recorder" / "inject" / "sitecustomize.py").read_text()


def test_hooks_run_the_tools_of_the_environment_and_download_nothing():
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    entries = re.findall(r"entry: (\S+)", text)
    assert entries
    assert all(Path(entry).parts[:2] == (".venv", "bin") for entry in entries)
    assert {Path(sys.executable).with_name(Path(entry).name).exists() for entry in entries} == {True}


def test_ci_runs_make_test_and_make_test_runs_every_check():
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    assert "exec make test" in (ROOT / ".ci" / "run").read_text()
    shown = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for tool in ("ruff check .", "ruff format --check .", "basedpyright", "lint-imports", "pytest -n 3"):
        assert tool in shown
