"""Reading a run folder: whole, torn, foreign, newer, missing, hostile."""

import os
import shutil
import socket
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import AnalyzerError, NotARunError, QueryError, Trace, UnreadableRunError
from firstfault.analyzer.reading import on_demand
from firstfault.analyzer.reading import trace as trace_module
from firstfault.analyzer.reading.views import SHARED
from firstfault.schemas import TABLES, VERSION_KEY, SchemaError, write_json
from firstfault.schemas.files.layout import EXIT_JSON, RUN_JSON, part_path, segment_path
from firstfault.schemas.files.seals import SEALED
from firstfault.schemas.files.step_values import STEP_VALUES, Mark, _batch, _check_of, batch_of

HOSTILE = [
    "a'b",
    'q"uote',
    "<script>alert(1)</script>",
    "line\nbreak",
    "层.归一",
    "🔥",
    "back\\slash",
    "$x {y} %s",
    "'; DROP TABLE steps; --",
]


def steps(first: int, last: int, **columns: Any) -> list[dict[str, Any]]:
    return [{"step": i, "loss": 1.0, "grad_norm": 1.0, **columns} for i in range(first, last + 1)]


def test_a_path_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match="no such folder; give a folder that `firstfault run` wrote"):
        Trace(tmp_path / "nothing")


def test_a_foreign_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match=r"not a run folder \(no run.json in it\)"):
        Trace(tmp_path)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(NotARunError, match="not a folder"):
        Trace(tmp_path / "x")


def test_a_damaged_run_json_names_the_file(write_run: Any) -> None:
    run = write_run()
    (run / RUN_JSON).write_text("{ torn")
    with pytest.raises(UnreadableRunError, match=r"run\.json"):
        Trace(run)


def test_an_empty_run_opens_with_every_table_empty(write_run: Any) -> None:
    with Trace(write_run()) as trace:
        assert {t: trace.has(t) for t in TABLES} == dict.fromkeys(TABLES, False)
        assert trace.has("runs")
        assert trace.problems == []
        assert trace.sql("SELECT count(*) AS n FROM stats").item() == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM Losses",
        'SELECT count(*) AS n FROM "step_series"',
        "SELECT count(finite(loss)) AS n FROM steps",
        "SELECT count(*) - count(*) AS n FROM duckdb_views() WHERE view_name = 'losses' HAVING count(*) = 1",
        "SELECT 0 AS n FROM (SHOW TABLES) WHERE name = 'losses'",
        "/* what there is */ FROM (DESCRIBE) SELECT 0 AS n WHERE name = 'losses'",
        "SELECT 0 AS n FROM -- all\n( -- of them\nSHOW ALL TABLES) WHERE name = 'losses'",
    ],
)
def test_shared_views_and_macros_are_there_for_the_first_query_that_wants_one(write_run: Any, query: str) -> None:
    with Trace(write_run()) as trace:
        assert trace.rows("SELECT step FROM steps") == []
        assert trace.rows(query) == [{"n": 0}]


@pytest.mark.parametrize(
    "query",
    [
        "FROM losses ORDER BY step DESC",
        "SELECT step AS shown, loss AS described FROM losses -- (show them)\nORDER BY step DESC LIMIT 1",
        "SELECT 'summarize' AS show FROM losses",
    ],
)
def test_words_that_list_what_there_is_elsewhere_create_no_other_view(write_run: Any, query: str) -> None:
    with Trace(write_run()) as trace:
        trace.rows(query)
        created = set(SHARED) - set(trace._views._unviewed)
    with Trace(write_run()) as trace:
        trace.rows("FROM losses")
        assert created == set(SHARED) - set(trace._views._unviewed)


def test_each_shared_view_is_created_with_no_others_than_those_it_reads(write_run: Any) -> None:
    run, created = write_run(), {}
    for name in SHARED:
        with Trace(run) as trace:
            trace.rows(f'FROM "{name}"')
            created[name] = set(SHARED) - set(trace._views._unviewed)
    assert created["losses"] < set(SHARED)
    assert all(created[read] <= read_by for read_by in created.values() for read in read_by)


def test_parts_and_journal_are_read_together_and_no_row_twice(write_run: Any, folder: Any) -> None:
    run = write_run()
    folder.write_part(run, "steps", folder.filled("steps", steps(0, 4)), index=0)
    folder.write_segment(run, "steps", [folder.filled("steps", steps(0, 4))], index=0)
    folder.write_segment(run, "steps", [folder.filled("steps", steps(i, i)) for i in range(5, 8)], index=1)
    with Trace(run) as trace:
        assert trace.sql("SELECT step FROM steps ORDER BY step")["step"].to_list() == list(range(8))


def test_a_torn_part_is_left_out_its_segment_read_instead_and_the_problem_named(write_run: Any, folder: Any) -> None:
    run = write_run()
    part = folder.write_part(run, "steps", folder.filled("steps", steps(0, 4)), index=0)
    part.write_bytes(part.read_bytes()[:-20])
    folder.write_segment(run, "steps", [folder.filled("steps", steps(0, 4))], index=0)
    folder.write_part(run, "steps", folder.filled("steps", steps(5, 9)), index=1)
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 10
        assert [p.path for p in trace.problems] == [str(part)]


def test_a_journal_cut_at_any_byte_gives_every_complete_append(write_run: Any, folder: Any) -> None:
    run = write_run(exit={"status": "signal", "signal": 9, "signal_name": "SIGKILL"})
    path = folder.write_segment(run, "steps", [folder.filled("steps", steps(i, i)) for i in range(5)])
    whole = path.read_bytes()
    ends = [len(TABLES["steps"].schema.serialize())]
    for i in range(5):
        batch = folder.arrow(TABLES["steps"], folder.filled("steps", steps(i, i))).to_batches()[0]
        ends.append(ends[-1] + len(batch.serialize()))
    assert ends[-1] == len(whole)
    for cut in {*ends, *(e - 1 for e in ends), *(e + 1 for e in ends[:-1]), 0, 7, len(whole) // 2}:
        path.write_bytes(whole[:cut])
        with Trace(run) as trace:
            complete = max(sum(e <= cut for e in ends) - 1, 0)
            assert trace.sql("SELECT count(*) AS n FROM steps").item() == complete
            assert trace.problems == []


def test_a_torn_journal_of_a_run_that_closed_its_files_is_a_problem(write_run: Any, folder: Any) -> None:
    run = write_run(exit={"status": "completed"})
    path = folder.write_segment(run, "steps", [folder.filled("steps", steps(i, i)) for i in range(5)])
    path.write_bytes(path.read_bytes()[:-9])
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 4
        assert [(p.path, "torn after 4" in p.what) for p in trace.problems] == [(str(path), True)]


def test_a_foreign_parquet_file_in_the_place_of_a_part_is_left_out(write_run: Any, folder: Any) -> None:
    run = write_run(steps=steps(0, 2))
    pq.write_table(pa.table({"x": [1]}), part_path(run, 0, "steps", 5))
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 3
        assert "not written by firstfault" in trace.problems[0].what


def test_a_part_of_a_newer_schema_stops_with_a_clear_error(write_run: Any) -> None:
    run = write_run(steps=steps(0, 2))
    table = pq.read_table(part_path(run, 0, "steps", 0))
    newer = table.replace_schema_metadata({VERSION_KEY: b"999"})
    pq.write_table(newer, part_path(run, 0, "steps", 1))
    with pytest.raises(SchemaError, match=r"part-000001.*newer firstfault \(schema 999.*upgrade") as caught:
        Trace(run)
    assert isinstance(caught.value, AnalyzerError)


def unsealed(table: pa.Table) -> pa.Table:
    """As a version without checksums has written it."""
    kept = {key: value for key, value in (table.schema.metadata or {}).items() if key not in SEALED}
    return table.replace_schema_metadata(kept)


def test_a_part_without_a_column_reads_as_null_and_an_unknown_column_is_ignored(write_run: Any) -> None:
    run = write_run(steps=steps(0, 2))
    path = part_path(run, 0, "steps", 0)
    table = pq.read_table(path)
    older = table.drop_columns(["clip_norm"]).append_column("colour", pa.array(["red"] * 3))
    pq.write_table(unsealed(older), part_path(run, 0, "steps", 1))
    with Trace(run) as trace:
        frame = trace.sql("SELECT * FROM steps")
        assert frame.height == 6
        assert "colour" not in frame.columns
        assert frame["clip_norm"].null_count() == 6
        assert trace.problems == []


def test_a_column_of_a_wrong_type_is_a_foreign_file(write_run: Any) -> None:
    run = write_run(steps=steps(0, 2))
    table = pq.read_table(part_path(run, 0, "steps", 0))
    index = table.schema.get_field_index("step")
    wrong = table.set_column(index, "step", table["step"].cast(pa.string()))
    pq.write_table(unsealed(wrong), part_path(run, 0, "steps", 1))
    with Trace(run) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 3
        assert "column step is string, not int64" in trace.problems[0].what


def test_a_later_description_replaces_an_earlier_one(write_run: Any, folder: Any) -> None:
    run = write_run()
    for index, name in enumerate(["old", "new"]):
        rows = [{"tensor_id": 1, "tensor_name": name, "kind": "parameter"}]
        folder.write_part(run, "tensors", folder.filled("tensors", rows), index=index)
    with Trace(run) as trace:
        assert trace.sql("SELECT tensor_name FROM tensors")["tensor_name"].to_list() == ["new"]


def test_phases_are_shown_by_name_and_ordered_by_number(write_run: Any) -> None:
    rows = [{"step": 0, "tensor_id": 0, "seq": i, "phase": p} for i, p in enumerate(["optimizer", "data", "loss"])]
    with Trace(write_run(tensor_stats=rows)) as trace:
        frame = trace.sql("SELECT phase FROM tensor_stats ORDER BY phase_order(phase)")
        assert frame["phase"].to_list() == ["data", "loss", "optimizer"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_strangers_pass_through_unharmed(write_run: Any, name: str) -> None:
    run = write_run(
        modules=[{"module_id": 0, "module": name, "class_name": name}],
        tensors=[{"tensor_id": 0, "tensor_name": name, "kind": "activation", "module_id": 0}],
        tensor_stats=[{"step": 0, "tensor_id": 0}],
    )
    with Trace(run) as trace:
        frame = trace.sql("SELECT module, tensor FROM stats WHERE tensor = $name", {"name": name})
        assert frame.rows() == [(name, name)]


@pytest.mark.parametrize("name", ["run[1]*?", "it's", "层 🔥", 'a"b', "{x}"])
def test_a_run_folder_may_have_any_name(write_run: Any, name: str) -> None:
    with Trace(write_run(name=name, steps=steps(0, 3))) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 4


def test_reading_needs_no_write_permission_and_writes_nothing(write_run: Any) -> None:
    run = write_run(steps=steps(0, 3))
    before = sorted((p, p.stat().st_mtime_ns) for p in run.rglob("*"))
    for path in (run, *run.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with Trace(run) as trace:
            trace.prepare()
            assert trace.has("steps")
    finally:
        for path in (run, *run.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert sorted((p, p.stat().st_mtime_ns) for p in run.rglob("*")) == before


def test_without_an_exit_record_a_living_process_is_running_and_a_dead_one_lost(write_run: Any, folder: Any) -> None:
    run = write_run(exit=None)
    with Trace(run) as trace:
        assert trace.status == "host-lost"
    alive = folder.manifest(pid=os.getpid(), hostname=socket.gethostname(), started_ns=2**62)
    write_json(run / RUN_JSON, alive)
    with Trace(run) as trace:
        assert trace.status == "running"
    # the same number given to a process that began long after the run
    write_json(run / RUN_JSON, folder.manifest(pid=os.getpid(), hostname=socket.gethostname(), started_ns=1))
    with Trace(run) as trace:
        assert trace.status == "host-lost"


def test_how_the_run_ended_can_be_queried(write_run: Any) -> None:
    exception = {"type": "IndexError", "message": "m", "step": 3, "locals": [{"name": "t", "shape": [2, 3], "max": 4}]}
    run = write_run(exit={"status": "exception", "exit_code": 1, "exception": exception})
    with Trace(run) as trace:
        assert trace.sql("SELECT status, exception_type, step FROM exits").rows() == [("exception", "IndexError", 3)]
        assert trace.sql("SELECT origin, name, shape, max FROM exception_tensors").rows() == [
            ("local", "t", [2, 3], 4.0)
        ]


def test_a_wrong_statement_is_an_error_of_the_query(write_run: Any) -> None:
    with Trace(write_run()) as trace, pytest.raises(QueryError, match="nonsense"):
        trace.sql("SELECT nonsense FROM steps")


def test_every_column_has_its_sentence_in_the_database(write_run: Any) -> None:
    with Trace(write_run(), described=True) as trace:
        frame = trace.sql("SELECT comment FROM duckdb_columns() WHERE table_name = 'tensors' AND column_name = 'dtype'")
        assert frame.item() == "Such as float32."


def test_a_segment_of_a_table_that_is_not_known_is_ignored(write_run: Any, folder: Any) -> None:
    run = write_run(steps=steps(0, 1))
    folder.write_segment(run, "steps", [folder.filled("steps", steps(2, 3))], index=1)
    shutil.copy(segment_path(run, 0, "steps", 1), segment_path(run, 0, "colours", 1))
    (run / EXIT_JSON).touch()
    with Trace(run, described=True) as trace:
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 4


def test_prepared_in_memory_or_not_a_run_answers_the_same(write_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(steps=steps(0, 9))
    answers: list[list[dict[str, Any]]] = []
    for place, limit in (
        (None, ""),
        (on_demand, "SMALL_BYTES"),
        (on_demand, "TAKEN_BYTES"),
        (trace_module, "LARGE_BYTES"),
    ):
        if place is not None:
            monkeypatch.setattr(place, limit, 0)
        with Trace(run) as trace:
            answers.append(trace.sql("SELECT * FROM steps ORDER BY step").to_dicts())
            trace.prepare()
            trace.prepare()
            answers.append(trace.sql("SELECT * FROM steps ORDER BY step").to_dicts())
            answers.append(trace.rows("SELECT * FROM steps WHERE step >= $low ORDER BY step", {"low": 0}))
    assert len(answers[0]) == 10
    assert all(answer == answers[0] for answer in answers)


def test_of_a_larger_run_a_table_is_taken_and_a_view_computed_when_it_is_first_asked_for(
    write_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "SMALL_BYTES", 0)
    kept = "SELECT table_name FROM duckdb_tables()"  # names none of them
    some = {"steps", "events", "step_series", "losses", "stats"}
    with Trace(write_run(steps=steps(0, 9), events=[{"time_ns": 1, "event": "seeded"}])) as trace:
        trace.prepare()
        assert some.isdisjoint(trace.sql(kept)["table_name"])
        answers = [trace.rows("SELECT sum(loss) AS loss FROM step_series") for _ in range(2)]
        trace.rows("SELECT * FROM stats")
        assert some.intersection(trace.sql(kept)["table_name"]) == {"step_series", "steps"}
    assert answers[0] == answers[1]


def test_rows_that_meet_a_condition_are_looked_for_in_tables_that_are_short_and_computed(
    write_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(steps=steps(0, 9))
    with Trace(run) as trace:
        trace.prepare()
        trace.look_for([("steps", "step > 8"), ("steps", "step > 9"), ("steps", "nothing > 9")])
        assert trace.may_have("steps", "step > 8")
        assert not trace.may_have("steps", "step > 9")
        assert not trace.may_have("steps", "loss > 1e9")  # asked alone
        with pytest.raises(QueryError, match="nothing"):
            trace.may_have("steps", "nothing > 9")
    monkeypatch.setattr(on_demand, "MANY_ROWS", 9)
    with Trace(run) as trace:
        assert trace.may_have("steps", "step > 9")
    monkeypatch.setattr(on_demand, "SMALL_BYTES", 0)
    with Trace(run) as trace:
        trace.prepare()
        assert trace.may_have("step_series", "step > 9")


def test_a_part_that_is_torn_inside_is_the_concern_of_those_who_read_it(write_run: Any) -> None:
    run = write_run(steps=steps(0, 9), metrics=[{"step": i, "name": "accuracy", "value": i / 7} for i in range(10)])
    (part,) = (run / "metrics").rglob("*.parquet")
    pq.write_table(unsealed(pq.read_table(part)), part)  # a seal would tell of it before anybody reads
    torn = bytearray(part.read_bytes())
    torn[4:40] = bytes(36)  # the first page; the footer is as it was
    part.write_bytes(torn)
    with Trace(run) as trace:
        trace.prepare()
        assert trace.sql("SELECT count(*) AS n FROM steps").item() == 10
        with pytest.raises(QueryError):
            trace.sql("SELECT * FROM metrics")
        with pytest.raises(QueryError):
            trace.rows("SELECT * FROM metrics")


def test_what_does_not_fit_its_column_is_null_and_the_file_is_named(write_run: Any) -> None:
    run = write_run()
    good = {"rank": 0, "step": 0, "completed": True, "loss": 1.5}
    values = [
        batch_of({"steps": [good], "colours": [{"red": 1}]}),
        batch_of({"steps": [{**good, "step": 1, "loss": "high", "microbatches": 1 << 40}]}),
        batch_of({"steps": [{**good, "step": 2, "loss": Fraction(1, 2)}]}),
    ]
    values.append(_batch(b"\xc1", _check_of(b"\xc1", Mark())))
    path = segment_path(run, 0, STEP_VALUES, 0)
    path.parent.mkdir(parents=True)
    with pa.ipc.new_stream(path, values[0].schema) as stream:
        for batch in values:
            stream.write_batch(batch)
    with Trace(run) as trace:
        found = trace.sql("SELECT step, loss, completed FROM steps ORDER BY step").rows()
        problems = [(p.path, p.what) for p in trace.problems]
    assert found == [(0, 1.5, True), (1, None, True), (2, None, True)]
    assert problems == [(str(path), "4 value(s) do not fit their columns; they are null")]


def parts(
    rank: int, first: int, last: int, part: float | None, ranks: list[int], **columns: Any
) -> list[dict[str, Any]]:
    return [{"rank": rank, "step": i, "part": part, "ranks": ranks, **columns} for i in range(first, last + 1)]


def grad_norms(run: Path) -> list[tuple[int, int, float | None]]:
    with Trace(run) as trace:
        rows = trace.rows("SELECT rank, step, grad_norm, clip_norm FROM steps ORDER BY rank, step")
        trace.prepare()
        assert rows == trace.rows("SELECT rank, step, grad_norm, clip_norm FROM steps ORDER BY rank, step")
    return [(row["rank"], row["step"], row["grad_norm"]) for row in rows]


def test_a_norm_of_shards_is_joined_over_the_ranks_that_hold_them(write_run: Any) -> None:
    run = write_run(
        steps=steps(0, 1, rank=0) + steps(0, 1, rank=1),
        norm_parts=[
            *parts(0, 0, 1, 3.0, [0, 1]),
            *parts(1, 0, 1, 4.0, [0, 1]),
            *parts(0, 0, 1, 12.0, [0]),
            *parts(1, 0, 1, 0.0, [1]),
        ],
    )

    assert grad_norms(run) == [(0, 0, 13.0), (0, 1, 13.0), (1, 0, 5.0), (1, 1, 5.0)]


def test_a_norm_of_which_a_part_is_missing_is_unknown(write_run: Any) -> None:
    run = write_run(
        steps=steps(0, 1, rank=0) + steps(0, 0, rank=1),
        norm_parts=parts(0, 0, 1, 3.0, [0, 1]) + parts(1, 0, 0, 4.0, [0, 1]),
    )

    assert grad_norms(run) == [(0, 0, 5.0), (0, 1, None), (1, 0, 5.0)]


def test_a_norm_of_summands_is_unknown_and_one_that_was_not_sharded_stays(write_run: Any) -> None:
    run = write_run(
        steps=steps(0, 1, rank=0) + steps(0, 1, rank=1),
        norm_parts=parts(0, 0, 0, None, [0, 1]) + parts(1, 0, 0, None, [0, 1]),
    )

    assert grad_norms(run) == [(0, 0, None), (0, 1, 1.0), (1, 0, None), (1, 1, 1.0)]


def test_parts_of_several_optimizers_are_not_mixed(write_run: Any) -> None:
    run = write_run(
        steps=[row for o in (0, 1) for r in (0, 1) for row in steps(0, 0, rank=r, optimizer_id=o)],
        norm_parts=[
            row for o in (0, 1) for r in (0, 1) for row in parts(r, 0, 0, 3.0 + r + 9 * o, [0, 1], optimizer_id=o)
        ],
    )

    with Trace(run) as trace:
        found = trace.rows("SELECT DISTINCT optimizer_id, grad_norm FROM steps ORDER BY ALL")
    assert found == [
        {"optimizer_id": 0, "grad_norm": 5.0},
        {"optimizer_id": 1, "grad_norm": pytest.approx((12**2 + 13**2) ** 0.5)},
    ]
