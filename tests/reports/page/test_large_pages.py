"""A page stays small however long the run was: data is reduced before it is drawn, and what went wrong is kept."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.render import reduce_page, render_page
from firstfault.schemas import TABLES, Phase
from firstfault.schemas.files.layout import part_path

LAYERS = 50
LIMIT = 4_000_000
"""Bytes of a page."""


def write(run, table, **columns):
    schema = TABLES[table].schema
    rows = len(next(iter(columns.values())))
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(rows, f.type) for f in schema]
    target = part_path(run, 0, table, 1)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), target)


@pytest.fixture
def long_run(run_folder):
    """``make(steps, every)``: a run of 50 layers, of which four tensors each were measured at every so many steps; one output
    is lost near the end."""

    def make(steps, every=1):
        folder = run_folder(f"long{steps}")
        kinds = (("activation", ":output0"), ("activation_gradient", ":output0.grad"), ("gradient", ".weight"))
        for module_id in range(LAYERS):
            name = f"blocks.{module_id}.linear"
            folder.add(
                "modules",
                module_id=module_id,
                module=name,
                model="net",
                class_name="Linear",
                depth=2,
                call_order=module_id,
            )
            for i, (kind, suffix) in enumerate((*kinds, ("parameter", ".weight"))):
                folder.add(
                    "tensors",
                    tensor_id=module_id * 4 + i,
                    tensor_name=name + suffix,
                    kind=kind,
                    module_id=module_id,
                    shape=[64, 64],
                    numel=4096,
                )
        run = folder.write()
        rng = np.random.default_rng(0)
        every_step = np.arange(steps)
        noise = rng.lognormal(0, 0.1, steps)
        ones = np.ones(steps, dtype=bool)
        write(
            run,
            "steps",
            rank=np.zeros(steps, np.int32),
            step=every_step,
            optimizer_id=np.zeros(steps, np.int32),
            time_ns=every_step * 20_000_000,
            completed=ones,
            stepped=ones,
            microbatches=np.ones(steps, np.int32),
            loss=3 * noise,
            grad_norm=noise,
            step_ns=(2e7 * noise).astype(np.int64),
            forward_ns=(5e6 * noise).astype(np.int64),
            backward_ns=(1e7 * noise).astype(np.int64),
            rss_bytes=(4e8 * noise).astype(np.int64),
        )
        groups = {"update_norm": 1e-3 * noise, "weight_norm": noise, "lr": np.full(steps, 1e-3)}
        zeros = np.zeros(steps, np.int32)
        write(run, "param_groups", rank=zeros, step=every_step, optimizer_id=zeros, group_id=zeros, **groups)
        measured = np.arange(0, steps, every)
        tensors = LAYERS * 4
        rows = len(measured) * tensors
        ids = np.tile(np.arange(tensors, dtype=np.int32), len(measured))
        step = np.repeat(measured, tensors)
        phases = np.array([Phase.FORWARD, Phase.BACKWARD, Phase.BACKWARD, Phase.OPTIMIZER], np.int8)
        size = rng.lognormal(0, 0.2, rows)
        lost = (step == measured[-30]) & (ids == 80)
        write(
            run,
            "tensor_stats",
            rank=np.zeros(rows, np.int32),
            step=step,
            microbatch=np.zeros(rows, np.int32),
            seq=ids,
            phase=phases[ids % 4],
            tensor_id=ids,
            numel=np.full(rows, 4096),
            nan_count=np.where(lost, 5, 0),
            inf_count=np.zeros(rows, np.int64),
            min=-3 * size,
            max=3 * size,
            sum=size,
            sum_sq=4096 * size**2,
        )
        return run, int(measured[-30])

    return make


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "every"),
    [
        pytest.param(10_000, 1, id="ten thousand", marks=pytest.mark.suite),
        pytest.param(200_000, 100, id="two hundred thousand"),
        pytest.param(1_000_000, 100, id="a million", marks=pytest.mark.suite),
    ],
)
def test_a_long_run_has_a_page_of_four_megabytes_at_most_that_shows_the_one_lost_value(
    long_run, make_verdict, open_page, tmp_path, steps, every
):
    run, bad = long_run(steps, every)
    verdict = make_verdict(path=run)
    verdict.first_anomaly.step = verdict.causes[0].step = bad
    with Trace(run) as trace:
        page = reduce_page(trace, verdict)
    html = render_page(page)
    assert len(html.encode()) <= LIMIT
    [lost] = [m for m in page.heat.measures if m.key == "lost"]
    column = next(i for i, first in enumerate(page.heat.starts) if first + page.heat.width > bad)
    assert lost.values[page.heat.modules.index("blocks.20.linear")][column] > 0
    said = dict(zip(page.replay.steps, page.replay.said, strict=True))
    assert said[bad].startswith(f"Step {bad}, the first anomaly: first blocks.20.linear (NaN or Inf)")
    target = tmp_path / "long.html"
    target.write_text(html)
    opened = open_page(target).drawn()
    assert opened.said == []
