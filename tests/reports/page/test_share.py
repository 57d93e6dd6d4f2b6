"""`report --share` leaves the machine and the person out of the page, and says so."""

from dataclasses import replace
from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.page.data import reduce_page
from firstfault.reports.page.render import render_page
from firstfault.reports.page.share import shared
from firstfault.schemas import ExceptionRecord, ExitRecord, RunManifest, write_json

PRIVATE = (
    "zoltan",
    "/home/zoltan",
    "secret-project",
    "node17.corp.example",
    "--budget-code",
    "91-B",
    "printed by the script",
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "20261125T100000Z-train-1a2b"
    folder.mkdir(parents=True)
    cwd = "/home/zoltan/clients/secret-project"
    write_json(
        folder / "run.json",
        RunManifest(
            run_id="20261125T100000Z-train-1a2b",
            firstfault_version="0.1.0",
            argv=["/home/zoltan/venv/bin/python", "train.py", "--budget-code", "91-B"],
            script="train.py",
            cwd=cwd,
            started_ns=1,
            hostname="node17.corp.example",
            pid=2**22 + 1,
            python="CPython 3.11.7",
            platform="Linux",
            versions={"executable": "/home/zoltan/venv/bin/python", "torch": "2.13.0"},
            config={"data": "/mnt/zoltan/data/train.bin", "lr": 0.1},
        ),
    )
    file = f'File "{cwd}/models/net.py", line 12, in forward'
    library = 'File "/home/zoltan/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 99, in _call_impl'
    error = ExceptionRecord(
        type="ValueError",
        message="bad shape on node17.corp.example, see https://docs.example.org/shapes/a",
        traceback=f"Traceback (most recent call last):\n  {file}\n  {library}\nValueError: bad shape",
        user_frame=f"{cwd}/models/net.py:12 in forward: return x @ w",
    )
    write_json(folder / "exit.json", ExitRecord(status="exception", ended_ns=2, exit_code=1, exception=error))
    (folder / "output.log").write_text("printed by the script\n" * 30)
    return folder


def test_a_shared_page_tells_nothing_of_machine_and_person_and_lists_what_it_left_out(run, tmp_path):
    with Trace(run) as trace:
        page = reduce_page(trace, diagnose(trace))
        plain, safe = render_page(page), render_page(shared(page, trace))
    assert [word for word in PRIVATE if word not in plain] == []
    assert [word for word in (*PRIVATE, str(tmp_path)) if word in safe] == []
    for word in (
        "models/net.py",
        "site-packages/torch/nn/modules/module.py".rpartition("/")[2],
        "line 12",
        "ValueError",
    ):
        assert word in safe
    assert "https://docs.example.org/shapes/a" in safe
    assert "left out: arguments, host and user, folders above the project, output of the script" in safe
    assert "left out: " not in plain


def test_where_a_run_failed_without_a_word_its_last_lines_of_output_stay(run):
    (run / "output.log").write_text("".join(f"line {i}\n" for i in range(40)))
    write_json(run / "exit.json", ExitRecord(status="signal", ended_ns=2, signal=9, signal_name="SIGKILL"))
    with Trace(run) as trace:
        page = shared(reduce_page(trace, diagnose(trace)), trace)
    assert page.ending.output is not None
    assert page.ending.output.splitlines() == [f"line {i}" for i in range(30, 40)]
    assert page.left_out[-1] == "output but its last lines"


def test_sharing_changes_nothing_but_texts(run):
    with Trace(run) as trace:
        page = reduce_page(trace, diagnose(trace))
        safe = shared(page, trace)
    assert safe.headline.badge == page.headline.badge
    assert [c.name for c in safe.causes] == [c.name for c in page.causes]
    assert replace(safe, left_out=[]) != page
