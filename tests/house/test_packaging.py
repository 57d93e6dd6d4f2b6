"""What pip installs is the whole of firstfault, and runs outside the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "recorder", "analyzer", "reports")
TRAIN = """
import torch
model = torch.nn.Linear(2, 1, bias=False)
for _ in range(20):
    (model(torch.randn(4, 2)) ** 2).mean().backward()
    with torch.no_grad():
        model.weight -= 0.01 * model.weight.grad
        model.weight.grad = None
"""


def _run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "FIRSTFAULT_RUN"}}
    return subprocess.run(
        [str(c) for c in command], cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False
    )


def _sources() -> list[Path]:
    """Files of the checkout, without what git ignores, relative to it."""
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    assert listed.returncode == 0, listed.stderr
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


LIBRARIES = {"firstfault/recorder/tensors/libmoments.so", "firstfault/analyzer/importers/libtrace_scan.so"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make` installs it."""
    return _built(tmp_path_factory)


def _built(tmp_path_factory: pytest.TempPathFactory, **environment: str) -> Path:
    """A wheel, built from a copy, so that nothing of the build stays in the checkout."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in _sources():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, ".")
    done = _run(*command, cwd=copy, **environment)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def _venv(folder: Path, wheel: Path, *, without: tuple[str, ...] = (), like: Path | None = None) -> Path:
    """A fresh environment with the wheel, beside links to the packages installed here (but ``without``); its bin folder. pip
    installs the wheel, unless that has been seen: then what it put into the environment ``like`` is copied."""
    installed = Path(sysconfig.get_path("purelib"))
    done = _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    left_out = ("firstfault", "__editable__", "__pycache__", "pip", *without)
    for entry in installed.iterdir():
        if not entry.name.startswith(left_out) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    python = folder / "bin" / "python"
    if like is not None:
        for entry in (like.parent / packages.relative_to(folder)).glob("firstfault*"):
            shutil.copytree(entry, packages / entry.name)
        program = (like / "firstfault").read_text()
        assert str(like / "python") in program
        (folder / "bin" / "firstfault").write_text(program.replace(str(like / "python"), str(python)))
        (folder / "bin" / "firstfault").chmod(0o755)
        return folder / "bin"
    options = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    done = _run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_every_room(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"firstfault/{name.as_posix()}" for name in _sources() if name.parts[0] in ROOMS}
    wanted |= {
        "firstfault/__init__.py",
        "firstfault/__main__.py",
        "firstfault/application.py",
        "firstfault/notebook.py",
        "firstfault/own_libraries.py",
    }
    assert wanted - inside == set()
    packaged = {name for name in inside if ".dist-info/" not in name}
    assert packaged - wanted - LIBRARIES == set(), "files that are not of the checkout"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_wheel_with_the_libraries_is_for_every_python_of_this_platform(wheel):
    assert set(zipfile.ZipFile(wheel).namelist()) >= LIBRARIES
    assert f"-py3-none-{sysconfig.get_platform().replace('-', '_')}" in wheel.name


@pytest.mark.suite
@pytest.mark.slow
def test_without_a_compiler_there_is_a_wheel_for_every_platform(tmp_path_factory):
    wheel = _built(tmp_path_factory, CC="/no/compiler")
    assert not LIBRARIES & set(zipfile.ZipFile(wheel).namelist())
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.slow
def test_the_installed_wheel_records_diagnoses_and_reports_also_without_torch(wheel, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(TRAIN)
    bin_ = _venv(tmp_path / "with-torch", wheel)
    where = _run(bin_ / "python", "-c", "import firstfault; print(firstfault.__file__)", cwd=work)
    assert where.stdout.startswith(str(tmp_path / "with-torch"))
    recorded = _run(bin_ / "firstfault", "run", "--out", "run", "train.py", cwd=work)
    assert recorded.returncode == 0, recorded.stderr
    assert "20 steps recorded" in recorded.stderr

    bare = _venv(tmp_path / "without-torch", wheel, without=("torch", "functorch"), like=bin_)
    assert "No module named 'torch'" in _run(bare / "python", "-c", "import torch", cwd=work).stderr
    diagnosed = _run(bare / "firstfault", "diagnose", "run", "--json", cwd=work)
    assert diagnosed.returncode in {0, 3}, diagnosed.stderr
    reported = _run(bare / "firstfault", "report", "run", "-o", "page.html", cwd=work)
    assert reported.returncode == 0, reported.stderr
    assert "<html" in (work / "page.html").read_text("utf-8")
    refused = _run(bare / "firstfault", "run", "train.py", cwd=work)
    assert refused.returncode == 2
    assert "firstfault[record]" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.suite
@pytest.mark.slow
def test_the_installed_wheel_runs_the_demo(wheel, tmp_path):
    bin_ = _venv(tmp_path / "venv", wheel)
    done = _run(bin_ / "firstfault", "demo", "shape-error", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_root_package_loads_nothing():
    code = "import sys; before = set(sys.modules); import firstfault; print(sorted(set(sys.modules) - before))"
    done = _run(sys.executable, "-c", code, cwd=ROOT.parent)
    assert done.stdout == "['firstfault']\n", done.stderr


def test_each_command_loads_only_its_room():
    code = "import sys; from firstfault.application import build_app; build_app({!r}); print(*sys.modules)"
    loaded = {
        c: set(_run(sys.executable, "-c", code.format(c), cwd=ROOT.parent).stdout.split()) for c in ("run", "report")
    }
    assert "firstfault.recorder.cli" in loaded["run"]
    assert not {"torch", "duckdb", "polars", "altair", "numpy", "pyarrow"} & loaded["run"]
    assert "firstfault.reports.commands.report" in loaded["report"]
    assert not {"torch", "firstfault.recorder"} & loaded["report"]


BARE = ("duckdb", "_duckdb", "polars", "altair", "vl_convert", "jinja2", "numpy", "narwhals", "pandas", "adbc")


@pytest.mark.slow
def test_a_training_node_records_without_the_libraries_of_the_analysis(wheel, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(TRAIN)
    bare = _venv(tmp_path / "node", wheel, without=BARE)
    recorded = _run(bare / "firstfault", "run", "--disk-limit", "2MB", "--out", "run", "train.py", cwd=work)
    assert recorded.returncode == 0, recorded.stderr
    assert "20 steps recorded" in recorded.stderr
    diagnosed = _run(bare / "firstfault", "diagnose", "run", "--json", cwd=work)
    assert (diagnosed.returncode, diagnosed.stderr) == (
        2,
        "firstfault: `diagnose` needs the libraries of the analysis; pip install 'firstfault[analysis]'\n",
    )
    assert "firstfault[analysis]" in _run(bare / "firstfault", "--help", cwd=work).stdout


@pytest.mark.suite
@pytest.mark.slow
def test_wheel_and_sdist_are_built_to_the_same_bytes_again(tmp_path, monkeypatch):
    sys.path.insert(0, str(Path(__file__).parent))
    from dist import build

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = []
    for place in ("one", "another/and/deeper"):
        copy = tmp_path / place
        for name in _sources():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
        (tmp_path / f"out-{len(found)}").mkdir()
        found.append(build(copy, tmp_path / f"out-{len(found)}"))
    assert len(found[0]) == 2
    assert found[0] == found[1]
