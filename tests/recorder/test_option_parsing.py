"""Options come from the command line, the API and the nearest settings file; what is wrong is said in one line."""

import json

import pytest
from firstfault.recorder import Recorder
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.base.option_parsing import duration, resolve, share, size

SCRIPT = "print('ran')"


def options(run) -> dict:
    return json.loads((run / "run.json").read_text())["options"]


def test_units_are_read_as_people_write_them():
    assert [share("3%"), share("0.03"), share(0.5), share("off")] == [0.03, 0.03, 0.5, None]
    assert [duration("10m"), duration("90s"), duration("1.5 h"), duration("250ms"), duration(3)] == [
        600,
        90,
        5400,
        0.25,
        3,
    ]


def test_sizes_are_read_in_both_systems_of_units():
    assert [size("2GB"), size("500M"), size("1.5 TiB"), size("4194304")] == [2 * 10**9, 5 * 10**8, 3 * 2**39, 2**22]
    for text in ("", "much", "0", "-2GB", "12", "3 m/s"):
        with pytest.raises(ValueError, match="size of at least"):
            size(text)


@pytest.mark.parametrize("text", ["", "much", "-3%", "0", "200%", "3 s"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ValueError, match="share of the step time"):
        share(text)


def test_command_line_options_are_written_to_run_json(bench):
    bench.write(SCRIPT)
    given = ["--budget", "off", "--every", "20", "--exclude", "a.*", "--exclude", "b", "--include", "c"]
    given += ["--hang-timeout", "10m", "--hang-kill", "--disk-limit", "2GB", "--keep", "50", "--profile", "every=7"]

    assert bench.record("script.py", options=given).returncode == 0

    assert options(bench.run) == {
        "budget": None,
        "grace_s": 1.5,
        "every": 20,
        "include": ["c"],
        "exclude": ["a.*", "b"],
        "disk_limit_bytes": 2_000_000_000,
        "keep": 50,
        "hang_timeout_s": 600.0,
        "hang_kill": True,
        "without": [],
        "keep_secrets": False,
        "on_nonfinite": "capture",
        "snapshots": "auto",
        "memory_history": 0,
        "profile": "every=7",
    }


def test_the_file_nearest_to_the_script_gives_defaults_and_the_command_line_wins(bench):
    bench.write(SCRIPT, "project/src/script.py")
    bench.write("[tool.firstfault.run]\nevery = 3\nbudget = '9%'\n", "project/pyproject.toml")
    bench.write("[run]\nevery = 50\n", "firstfault.toml")

    assert bench.record("project/src/script.py", options=["--budget", "4%"]).returncode == 0

    assert (options(bench.run)["every"], options(bench.run)["budget"]) == (3, 0.04)


def test_the_rules_table_is_left_to_the_analyzer(bench):
    bench.write(SCRIPT)
    bench.write("[rules.MO006]\nsteps = 3\n[run]\nhang-timeout = '2m'\n", "firstfault.toml")
    assert bench.record("script.py").returncode == 0
    assert options(bench.run)["hang_timeout_s"] == 120


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nevry = 3\n", "there is no option 'evry'"),
        ("[runs]\nevery = 3\n", "there is no table 'runs'"),
        ("[run]\nevery = 0\n", "every = 0: wants a whole number"),
        ("[run]\nexclude = [1]\n", "exclude = [1]: wants names"),
        ("[run\n", "is not TOML"),
    ],
)
def test_a_wrong_settings_file_is_named_in_one_line(bench, text, said):
    bench.write(SCRIPT)
    bench.write(text, "firstfault.toml")
    recorded = bench.record("script.py")
    assert recorded.returncode == 2
    line = recorded.stderr.decode().splitlines()
    assert len(line) == 1
    assert f"{bench.folder / 'firstfault.toml'}: " in line[0]
    assert said in line[0]
    assert not recorded.run.exists()


def test_a_broken_pyproject_that_does_not_know_us_is_none_of_our_business(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    assert resolve({}, [tmp_path]).every == 1


def test_the_api_takes_the_same_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Recorder(tmp_path / "run", budget="5%", every=7, exclude=["head"]):
        pass
    assert (options(tmp_path / "run")["budget"], options(tmp_path / "run")["every"]) == (0.05, 7)
    with pytest.raises(RecorderError, match="there is no option 'evry'"):
        Recorder(tmp_path / "other", evry=3)


@pytest.mark.parametrize("wrong", ["always", "every=0", "5:5", "7:3", "every", "-1:4"])
def test_a_profile_that_cannot_be_is_one_clear_sentence(wrong):
    with pytest.raises(RecorderError, match=r"--profile .* wants auto, off, every=N or START:STOP"):
        resolve({"profile": wrong}, [])
