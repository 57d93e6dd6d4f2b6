"""Damage is named, costs what it hit, and changes no verdict in silence."""

import os
import shutil
import sys
from pathlib import Path

import forked
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.reading.check import check
from firstfault.application import build_app
from firstfault.schemas import VERSION_KEY
from firstfault.schemas.files.checksums import with_crc
from firstfault.schemas.files.layout import part_path, parts, segment_path
from firstfault.schemas.files.seals import SEALED
from firstfault.schemas.files.step_values import STEP_VALUES
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))
from damage import fuzz, record_ends

SCRIPT = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(12)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(4, 4)
    if sys.argv[1] == "nan" and step == 20:
        x[1, 2] = float("nan")
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
    if sys.argv[1] == "killed" and step == 35:
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One run that ended, and one whose journal was never closed."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(SCRIPT)
    for kind in ("nan", "killed"):
        command = [
            sys.executable,
            "-m",
            "firstfault",
            "run",
            "--budget",
            "off",
            "--out",
            folder / kind,
            folder / "train.py",
            kind,
        ]
        forked.run(command, timeout=300)
    return folder


@pytest.fixture(scope="module")
def verdict_of_ended(recorded):
    """What is judged of the run that ended, before anything is damaged."""
    with Trace(recorded / "nan") as trace:
        return diagnose(trace)


@pytest.fixture
def ended(recorded, tmp_path):
    return Path(shutil.copytree(recorded / "nan", tmp_path / "nan"))


@pytest.fixture
def killed(recorded, tmp_path):
    return Path(shutil.copytree(recorded / "killed", tmp_path / "killed"))


def problems(run):
    with Trace(run) as trace:
        return [(Path(p.path).relative_to(run).as_posix(), p.what) for p in trace.problems], trace.steps_recorded()


def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 4
    path.write_bytes(raw)


def test_a_run_that_nobody_touched_is_whole(ended, killed):
    assert check(ended).problems == check(killed).problems == []
    assert check(ended).unsealed == 0
    done = CliRunner().invoke(build_app(), ["check", str(ended)])
    assert (done.exit_code, done.output.splitlines()[-1][:6]) == (0, "whole;")


def test_a_flipped_byte_of_a_part_costs_its_row_group_and_is_said(ended):
    part = part_path(ended, 0, "tensor_stats", 0)
    flip(part, 200)
    (said,), steps = problems(ended)
    assert said[0] == "tensor_stats/rank=0000/part-000000.parquet"
    assert "of its" in said[1]
    assert steps == 40


def test_a_flipped_byte_of_a_footer_costs_the_part(ended):
    part = part_path(ended, 0, "steps", 0)
    flip(part, part.stat().st_size - 100)
    (said,), steps = problems(ended)
    assert said == (
        "steps/rank=0000/part-000000.parquet",
        "it is damaged: its footer is not what was written; none of its rows are read",
    )
    assert steps == 0


def test_a_part_whose_seal_was_wiped_out_is_no_part_of_before(ended):
    part = part_path(ended, 0, "steps", 0)
    raw = part.read_bytes()
    at = raw.rindex(b"FFSEAL1")
    part.write_bytes(raw[: at - 400] + bytes(500) + raw[at + 100 :])
    (said,), steps = problems(ended)
    assert said[0] == "steps/rank=0000/part-000000.parquet"
    assert steps == 0


def test_a_breadcrumb_that_was_wiped_out_is_said_and_no_step_of_it_is_believed(killed):
    path = killed / "breadcrumb" / "rank=0000.bin"
    path.write_bytes(path.read_bytes()[:24] + bytes(104))
    (said,), _ = problems(killed)
    assert said == ("breadcrumb/rank=0000.bin", "it is damaged: where this rank stood last is not known")


def test_rows_that_are_missing_make_no_run_healthy(ended, verdict_of_ended):
    assert verdict_of_ended.verdict == "anomalous"
    part_path(ended, 0, "tensor_stats", 0).unlink()
    part_path(ended, 0, "batches", 0).unlink()
    with Trace(ended) as trace:
        verdict = diagnose(trace)
    assert verdict.verdict != "healthy"
    assert sum("it is missing" in n.why for n in verdict.not_evaluable) == 2


def test_a_journal_cut_between_two_records_is_told_from_one_that_was_written_so(killed):
    path = segment_path(killed, 0, STEP_VALUES, 0)
    assert problems(killed) == ([], 36)
    ends = record_ends(killed)[path.relative_to(killed)]
    raw = path.read_bytes()
    path.write_bytes(raw[: ends[-5]])
    said, steps = problems(killed)
    assert [what for _, what in said] == [f"it is damaged: its last {len(raw) - ends[-5]} bytes are missing"]
    assert steps < 36


def test_a_flipped_byte_of_a_journal_costs_one_record(killed):
    path = segment_path(killed, 0, STEP_VALUES, 0)
    ends = record_ends(killed)[path.relative_to(killed)]
    for at in (ends[10] + 4, (ends[10] + ends[11]) // 2, ends[11] - 20):  # length of the frame, value, checksum
        raw = path.read_bytes()
        flip(path, at)
        said, steps = problems(killed)
        assert [what for _, what in said] == ["1 damaged stretch(es) of its journal are left out, the rest is read"], at
        assert steps in {35, 36}
        path.write_bytes(raw)


@pytest.mark.parametrize("name", ["tensor_stats", STEP_VALUES])
def test_zeros_behind_the_marker_of_a_record_are_no_end_of_the_journal(killed, name):
    """Arrow ends a stream there; whatever follows would be left out without a word."""
    path = segment_path(killed, 0, name, 0)
    at = record_ends(killed)[path.relative_to(killed)][10]
    raw = path.read_bytes()
    assert raw[at : at + 4] == b"\xff\xff\xff\xff"
    path.write_bytes(raw[: at + 4] + bytes(60) + raw[at + 64 :])
    said, steps = problems(killed)
    assert any("1 damaged stretch" in what for _, what in said)
    assert steps in {35, 36}


@pytest.mark.parametrize("name", ["tensor_stats", STEP_VALUES])
def test_a_column_whose_name_is_no_text_any_more_is_said(killed, name):
    segment = segment_path(killed, 0, name, 0)
    raw = segment.read_bytes()
    at = raw.index(b"tensor_id" if name == "tensor_stats" else b"check")
    segment.write_bytes(raw[:at] + b"\xe8" + raw[at + 1 :])
    said, _ = problems(killed)
    assert any(path.endswith(segment.name) for path, _ in said)
    with Trace(killed) as trace:
        diagnose(trace)


def test_a_flipped_number_in_a_batch_of_statistics_is_left_out(killed):
    path = segment_path(killed, 0, "tensor_stats", 0)
    ends = record_ends(killed)[path.relative_to(killed)]
    with Trace(killed) as trace:
        before = trace.sql("SELECT count(*) FROM tensor_stats").item()
    flip(path, (ends[10] + ends[11]) // 2)
    (said,), _ = problems(killed)
    assert "1 damaged stretch(es)" in said[1]
    with Trace(killed) as trace:
        assert 0 < before - trace.sql("SELECT count(*) FROM tensor_stats").item() < before / 10


def test_damage_that_became_a_part_is_still_said(killed):
    from firstfault.recorder.storage.compaction import compact
    from firstfault.recorder.storage.merging import merge

    path = segment_path(killed, 0, STEP_VALUES, 0)
    flip(path, path.stat().st_size // 2)
    compact(killed, finished=True)
    merge(killed, finished=True)
    assert parts(killed, "steps")
    said, steps = problems(killed)
    assert [what for _, what in said] == ["1 damaged stretch(es) of its journal are left out, the rest is read"]
    assert steps in {35, 36}


BROKEN = [b"{", b"", b"\xff\xfe{}", b'{"schema_version": "x"}', b"[]", b"null"]


@pytest.mark.parametrize("name", ["run.json", "exit.json"])
@pytest.mark.parametrize("raw", BROKEN)
def test_whatever_a_record_holds_the_rest_is_read(ended, name, raw):
    (ended / name).write_bytes(raw)
    said, steps = problems(ended)
    assert steps == 40
    assert [path for path, _ in said] == [name]


@pytest.mark.parametrize("name", ["run.json", pytest.param("exit.json", marks=pytest.mark.suite)])
@pytest.mark.parametrize("raw", [BROKEN[0], *(pytest.param(raw, marks=pytest.mark.suite) for raw in BROKEN[1:])])
def test_whatever_a_record_holds_a_page_is_drawn_that_says_so(ended, name, raw):
    (ended / name).write_bytes(raw)
    done = CliRunner().invoke(build_app(), ["report", str(ended), "-o", str(ended.parent / "page.html")])
    assert done.exit_code == 0, done.output
    assert name in (ended.parent / "page.html").read_text("utf-8")


def test_a_letter_of_run_json_is_said_and_the_rest_of_it_is_known(ended):
    raw = (ended / "run.json").read_bytes()
    (ended / "run.json").write_bytes(raw.replace(b'"hostname"', b'"hostn\xffme"'))
    with Trace(ended) as trace:
        assert trace.manifest.argv[-1] == "nan"
        assert [p.what for p in trace.problems] == [
            "it is damaged: its content is not what was written; what it says may be wrong"
        ] or "not known" in trace.problems[0].what


def test_a_run_of_a_newer_schema_is_refused_in_one_line(ended):
    said = msgspec.json.decode((ended / "run.json").read_bytes()) | {"schema_version": 99}
    (ended / "run.json").write_bytes(msgspec.json.encode(with_crc(said)))
    done = CliRunner().invoke(build_app(), ["diagnose", str(ended)])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "newer firstfault (schema 99" in done.output


def test_a_run_of_an_older_schema_is_read_with_the_columns_that_it_has(ended, verdict_of_ended):
    """Version 0 in every file, no checksum, and columns that came later are not there."""
    for table, later in {"steps": ["loss_scale", "carried_grad_norm"], "tensor_stats": ["requires_grad"]}.items():
        for part in parts(ended, table):
            rows = pq.read_table(part.path).drop_columns(later)
            kept = {k: v for k, v in rows.schema.metadata.items() if k not in SEALED} | {VERSION_KEY: b"0"}
            pq.write_table(rows.replace_schema_metadata(kept), part.path)
    said = msgspec.json.decode((ended / "run.json").read_bytes()) | {"schema_version": 0}
    del said["crc32"]
    (ended / "run.json").write_bytes(msgspec.json.encode(said))
    with Trace(ended) as trace:
        assert trace.problems == []
        assert trace.sql("SELECT count(loss_scale) AS known, count(*) AS steps FROM steps").row(0) == (0, 40)
        after = diagnose(trace)
    assert [(c.name, c.step) for c in after.causes] == [(c.name, c.step) for c in verdict_of_ended.causes] != []


def test_what_was_written_without_checksums_is_read_as_it_is(killed):
    """A journal of before: rows without checks, no note beside it."""
    path = segment_path(killed, 0, STEP_VALUES, 0)
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    with pa.ipc.new_stream(path, table.drop_columns(["check"]).schema) as stream:
        stream.write_table(table.drop_columns(["check"]))
    (path.parent / "written.bin").unlink()
    assert problems(killed) == ([], 36)


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.parametrize("seed", [int(os.environ.get("FIRSTFAULT_FUZZ_SEED", "1"))])
def test_no_cut_and_no_flip_is_a_traceback_a_hang_or_another_verdict_in_silence(recorded, tmp_path, seed):
    cases = int(os.environ.get("FIRSTFAULT_FUZZ_CASES", "40"))
    tally = fuzz([recorded / "nan", recorded / "killed"], cases, seed, tmp_path, judge=20, pages=60)
    assert tally.bad == []
    assert tally.kinds["said"] > cases / 2
