"""Watching a run: what is shown of it, that a look follows a look until it ends, and the exit status."""

import io
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from firstfault.analyzer import AnalyzerError, Trace
from firstfault.reports.commands.watch import watch_until_ended
from firstfault.reports.live import COURSE, Live, course_of, look_at
from rich.console import Console


def live(*, going_on, name="run"):
    return Live(name, "running" if going_on else "completed", going_on, [("step", "3")], "▁█", [])


def test_a_look_tells_step_loss_rate_and_what_was_noticed(broken_run):
    broken_run.add("events", step=30, time_ns=5, event="warning", message="lr is\x1b[31m odd")
    with Trace(broken_run.write()) as trace:
        seen = look_at(trace)
    lines = dict(seen.lines)
    assert lines["step"] == "39"
    assert lines["loss"].startswith("NaN   median of 20: ")
    assert lines["rate"].startswith("50 steps/s   20 ms a step   waiting for data 2%   recording 3.0%")
    assert seen.notes == ["step 30: warning, lr is\\x1b[31m odd"]
    assert seen.course.endswith("×" * 9)
    assert "×" not in seen.course[:31]


def test_a_run_without_a_step_can_be_watched(run_folder):
    with Trace(run_folder().write()) as trace:
        seen = look_at(trace)
    assert ("step", "none recorded yet") in seen.lines
    assert seen.course == ""


def test_a_long_course_is_short_and_a_single_lost_value_shows():
    values = [float(1000 - i) for i in range(1000)]
    assert len(course_of(values)) == COURSE
    assert course_of(values)[0] == "█"
    assert course_of(values)[-1] == "▁"
    values[500] = math.nan
    assert course_of(values).count("×") == 1
    assert course_of([2.0, 2.0, None]) == "▁▁×"


def test_looks_follow_each_other_until_the_run_has_ended(make_verdict):
    looks = iter([(live(going_on=True), make_verdict("healthy")), (live(going_on=False), make_verdict())])
    shown = io.StringIO()
    verdict = watch_until_ended(Console(file=shown, width=100), lambda: next(looks), 0.0, once=False)
    assert verdict.verdict == "anomalous"
    assert "ANOMALOUS" in shown.getvalue()
    assert shown.getvalue().count("step") >= 1
    assert next(looks, None) is None


def test_one_failed_look_is_tried_again_and_two_are_an_error(make_verdict):
    answers = iter([AnalyzerError("a part has gone"), (live(going_on=False), make_verdict("healthy"))])

    def look():
        answer = next(answers, AnalyzerError("gone for good"))
        if isinstance(answer, AnalyzerError):
            raise answer
        return answer

    console = Console(file=io.StringIO())
    assert watch_until_ended(console, look, 0.0, once=False).verdict == "healthy"
    with pytest.raises(AnalyzerError, match="for good"):
        watch_until_ended(console, look, 0.0, once=False)


def test_each_look_is_a_line_of_json(make_verdict, capsys):
    looks = [replace(live(going_on=on), step=step, loss=loss) for on, step, loss in ((1, 3, 0.5), (0, 4, math.nan))]
    answers = iter([(look, make_verdict("healthy")) for look in looks])
    console = Console(file=io.StringIO())
    watch_until_ended(console, lambda: next(answers), 0.0, once=False, as_json=True)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(t["status"], t["step"], t["loss"]) for t in told] == [("running", 3, 0.5), ("completed", 4, "NaN")]
    assert {t["verdict"] for t in told} == {"healthy"}
    assert console.file.getvalue() == ""


def test_the_command_ends_with_the_run_and_with_its_verdict(broken_run):
    path = broken_run.write()
    command = [sys.executable, "-m", "firstfault", "watch", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "ANOMALOUS" in done.stdout
    assert "completed" in done.stdout
    assert done.stderr == ""


def test_what_is_no_run_is_one_clear_line(tmp_path):
    command = [sys.executable, "-m", "firstfault", "watch", str(tmp_path / "nothing"), "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "no such folder" in done.stderr
    assert "Traceback" not in done.stderr
