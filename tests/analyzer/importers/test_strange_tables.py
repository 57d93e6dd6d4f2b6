"""Tables and logs whose rows are not what they look like: runs below each other, epochs among steps, counts that are missing."""

import json
import pickle
import tracemalloc

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.pickles import read_plain_pickle


def imported(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    import_files([tmp_path / name], tmp_path / "run", "0")
    return Trace(tmp_path / "run")


def test_a_summary_of_runs_is_no_curve(tmp_path):
    text = "name,train_loss,test_loss\nmixup,0.36,1.14\ncutout,0.38,1.19\nnone,0.46,1.12\n"
    with pytest.raises(ImportFileError, match=r"each of its rows is another run .name: cutout, mixup, none"):
        imported(tmp_path, "project.csv", text)


def test_steps_of_several_runs_are_no_curve(tmp_path):
    text = "run_name,step,loss\n" + "".join(f"{run},{n},{2 - n / 10}\n" for run in ("a", "b") for n in range(5))
    with pytest.raises(ImportFileError, match=r"its rows are of 2 runs .run_name: a, b"):
        imported(tmp_path, "history.csv", text)


def test_the_name_of_one_run_in_every_row_is_no_hindrance(tmp_path):
    text = "run_name,step,loss\n" + "".join(f"a,{n},{2 - n / 10}\n" for n in range(5))
    with imported(tmp_path, "history.csv", text) as trace:
        assert trace.sql("SELECT count(loss) FROM steps").item() == 5


def test_evaluations_that_count_epochs_belong_to_the_step_before(tmp_path):
    lines = []
    for epoch in (1, 2, 3):
        lines.append({"lr": 0.01, "loss": 2 - epoch / 4, "epoch": epoch, "iter": 69 * epoch, "step": 69 * epoch})
        lines.append({"accuracy/top1": 40.0 + epoch, "data_time": 0.1, "step": epoch})
    with imported(tmp_path, "scalars.json", "\n".join(map(json.dumps, lines))) as trace:
        assert trace.sql("SELECT step FROM steps ORDER BY step")["step"].to_list() == [69, 138, 207]
        said = trace.sql("SELECT step, value FROM metrics WHERE name LIKE '%top1' ORDER BY step").rows()
    assert said == [(69, 41.0), (138, 42.0), (207, 43.0)]


def test_a_value_of_mlperf_without_the_count_belongs_to_the_one_before(tmp_path):
    def line(key, value, **about):
        about = {"event_type": "POINT_IN_TIME", "key": key, "value": value, "metadata": about}
        return f":::MLLOG {json.dumps({'namespace': '', 'time_ms': 1700000000000} | about)}\n"

    text = "".join(
        line("tracked_stats", {"throughput": 8.0 + n}, step=n * 48)
        + line("eval_accuracy", 0.9 + n / 100, samples_count=n * 384)
        for n in (1, 2)
    )
    with imported(tmp_path, "result_0.txt", text) as trace:
        said = trace.sql("SELECT step, value FROM metrics WHERE name LIKE '%eval_accuracy' ORDER BY step").rows()
    assert [step for step, _ in said] == [48, 96]
    assert [value for _, value in said] == pytest.approx([0.91, 0.92])


def test_a_file_that_was_never_written_is_said_to_be_one(tmp_path):
    (tmp_path / "trace.json").write_bytes(bytes(1 << 17))
    with pytest.raises(ImportFileError, match="begins with 65536 zeros"):
        import_files([tmp_path / "trace.json"], tmp_path / "run", "0")


def test_a_profile_without_categories_is_not_judged(tmp_path):
    events = [{"name": "[MEMCPY] HtoD", "ph": "X", "ts": 100.0 * n, "dur": 5.0, "pid": 1, "tid": 7} for n in range(9)]
    with imported(tmp_path, "gpu_trace.json", json.dumps(events)) as trace:
        said = " ".join(n.why for n in diagnose(trace).not_evaluable)
    assert "the events of the profile have no category" in said
    assert "each was judged as a whole" not in said


def test_what_lies_behind_the_end_of_a_pickle_is_not_read(tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": []}))
    with path.open("r+b") as file:
        file.truncate(3 << 30)  # a hole: it takes no room
    tracemalloc.start()
    assert read_plain_pickle(path) == {"segments": []}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20
