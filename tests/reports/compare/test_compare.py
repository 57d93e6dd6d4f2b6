"""Two runs made by hand, side by side: counts of NaN, sampled recordings, hostile names."""

from typing import Any

from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.compare import divergence
from firstfault.analyzer.compare.comparison import compare
from firstfault.application import build_app
from typer.testing import CliRunner


def command(*args: Any) -> Any:
    app = build_app("compare")
    return CliRunner().invoke(app, ["compare", *map(str, args)], catch_exceptions=False)


def test_a_run_that_lost_its_values_diverges_where_the_counts_of_nan_do(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, lost in zip(runs, (99, 6), strict=True):
        run.module(0, "net")
        for step in range(10):
            run.step(step)
            run.stat(step, 0, None if step >= lost else 1.0)
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    assert c.beyond is not None
    assert (c.beyond.step, c.beyond.module, c.beyond.measure, c.beyond.a, c.beyond.b) == (6, "net", "nan_count", 0, 32)


def test_where_recording_was_sampled_the_first_step_is_bounded(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, size in zip(runs, (1.0, 2.0), strict=True):
        run.module(0, "net")
        for step in range(12):
            run.step(step)
            if step % 4 == 0:
                run.stat(step, 0, 1.0 if step < 8 else size)
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    assert c.exact is not None
    assert (c.exact.step_lower, c.exact.step) == (5, 8)


def test_hostile_names_do_nothing_in_the_page_of_a_comparison(run_folder, open_page, tmp_path):
    evil = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    runs = [run_folder(name) for name in ("a", "b<i>")]
    for run, size in zip(runs, (1.0, 2.0), strict=True):
        run.module(0, evil)
        run.config = {evil: size}
        for step in range(4):
            run.step(step)
            run.stat(step, 0, size)
        run.write()
    target = tmp_path / "page.html"
    assert command(runs[0].path, runs[1].path, "-o", target).exit_code == 1
    opened = open_page(target)
    opened.page.wait_for_selector("html[data-curves=drawn]", timeout=20_000)
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.said == []
    assert evil in opened.page.locator("body").inner_text()


def test_a_run_that_ended_early_is_equal_as_far_as_it_goes_and_its_end_is_told(run_folder):
    runs = [run_folder("a"), run_folder("b", status="exception")]
    for run, steps in zip(runs, (20, 8), strict=True):
        run.module(0, "net")
        for step in range(steps):
            run.step(step)
            run.stat(step, 0, 1.0)
        run.write()
    done = command(runs[0].path, runs[1].path)
    assert done.exit_code == 0
    assert "Equal to the last bit in 8 common steps" in done.stdout
    assert "A completed at step 19 and B exception at step 7" in " ".join(done.stdout.split())


def test_a_tensor_that_only_one_run_has_from_the_first_difference_on_is_named(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, faulty in zip(runs, (False, True), strict=True):
        run.module(0, "net")
        run.module(1, "extra")
        for step in range(8):
            run.step(step)
            run.stat(step, 0, 2.0 if faulty and step >= 5 else 1.0)
            if faulty and step >= 5:
                run.stat(step, 1, 1.0)
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    assert c.tensors.only_a == []
    assert c.tensors.only_b == [("activation extra:output0", 5)]
    assert c.explanation is not None
    assert "From this step on only B has activation extra:output0." in c.explanation.message


def test_more_rows_than_fit_at_once_give_the_same_answer(run_folder, monkeypatch):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, size in zip(runs, (1.0, 1.001), strict=True):
        for module_id in range(6):
            run.module(module_id, f"layers.{module_id}")
        for step in range(12):
            run.step(step)
            for module_id in range(6):
                run.stat(step, module_id, (module_id + 1) * (size if step >= 4 + module_id else 1.0))
        run.write()
    found = []
    for limit in (1_000_000, 5):
        monkeypatch.setattr(divergence, "ROWS_AT_ONCE", limit)
        with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
            found.append(divergence.compare_tensors(a, b, 0, 11))
    assert found[0].exact == found[1].exact
    assert found[0].beyond == found[1].beyond
    assert found[0].at_first == found[1].at_first
    assert found[0].by_step.equals(found[1].by_step)
    assert found[0].exact is not None
    assert (found[0].exact.step, found[0].exact.module) == (4, "layers.0")


def test_another_size_and_precision_of_the_model_are_told_and_explain(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, elements, autocast in zip(runs, (10, 20), (None, "bfloat16"), strict=True):
        run.module(0, "net", own_numel=elements)
        for step in range(6):
            run.step(step, autocast=autocast)
            run.stat(step, 0, float(elements))
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    told = {(d.name, d.a, d.b) for d in c.differences if d.group == "configuration"}
    assert told == {("elements of the parameters", "10", "20"), ("autocast", "", "bfloat16")}
    assert c.explanation is not None
    assert c.explanation.name == "changed-by-intent"


def test_the_rank_that_differs_and_the_samples_it_drew_are_named(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, drawn in zip(runs, ([7, 8, 9], [7, 5, 6]), strict=True):
        run.module(0, "net")
        for step in range(6):
            run.step(step)
            run.stat(step, 0, 1.0)
            for rank in (0, 1):
                other = rank == 1 and step >= 3
                batch = {"step": step, "seq": 0, "field": "x", "role": "input", "phase": 0, "microbatch": 0}
                mine = drawn if other else [1, 2, 3]
                run.add("batches", **batch | {"rank": rank, "fingerprint": sum(mine) - 20, "sample_indices": mine})
        run.write()
    out = " ".join(command(runs[0].path, runs[1].path).stdout.split())
    assert "rank 1, step 3, batch field x: samples, from the first other one on, [8, 9] and [5, 6]" in out
    assert "other ones from step 3 on, of other samples" in out
