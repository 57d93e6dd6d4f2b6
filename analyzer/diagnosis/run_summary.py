"""One run in one row: what an index over many runs says about it. The findings of all runs in one table."""

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from ..reading.liveness import last_sign_of_life
from ..reading.trace import Trace
from ..verdict import Finding, Verdict
from .run_settings import run_settings

CURVE_POINTS = 48
"""Points of the small loss curve: medians of as many stretches of equal length."""

_LOSS = """
SELECT step, loss FROM losses WHERE rank = (SELECT min(rank) FROM losses) ORDER BY step
"""

FINDINGS_SCHEMA = {
    "run": pl.String,
    "path": pl.String,
    "run_id": pl.String,
    "role": pl.String,
    "code": pl.String,
    "name": pl.String,
    "severity": pl.String,
    "confidence": pl.Float64,
    "step": pl.Int64,
    "step_lower": pl.Int64,
    "rank": pl.Int64,
    "microbatch": pl.Int64,
    "phase": pl.String,
    "module": pl.String,
    "tensor": pl.String,
    "signal": pl.String,
    "value": pl.Float64,
    "message": pl.String,
    "fix": pl.String,
    "explained_by": pl.String,
}
"""Columns of findings.parquet. ``run`` is the name in the index, ``role`` cause or symptom; the rest as in the verdict."""


class RunSummary(msgspec.Struct, kw_only=True):
    """One run. ``verdict`` is that of diagnose, or unreadable, and then ``error`` says why. ``code``, ``fault``, ``step``,
    ``module`` and ``message`` are those of the first cause, of a warning only where nothing else was found. ``seconds`` is the
    time from start to end, or to the last sign of life. ``loss_last`` is the last finite one, and ``loss_finite`` whether
    there was none after it; ``loss_curve`` holds medians, null where the loss was not finite. ``settings``: see
    run_settings. Null is not measured."""

    verdict: str
    error: str | None = None
    run_id: str | None = None
    status: str | None = None
    script: str | None = None
    started_ns: int | None = None
    seconds: float | None = None
    steps: int | None = None
    code: str | None = None
    fault: str | None = None
    severity: str | None = None
    step: int | None = None
    step_lower: int | None = None
    rank: int | None = None
    module: str | None = None
    message: str | None = None
    causes: list[str] = []
    loss_last: float | None = None
    loss_best: float | None = None
    loss_best_step: int | None = None
    loss_finite: bool | None = None
    loss_curve: list[float | None] = []
    settings: dict[str, str | float] = {}
    findings: list[dict[str, Any]] = []


def summarise(trace: Trace, verdict: Verdict) -> RunSummary:
    """Reduce a trace and its verdict to a row. Raises QueryError where a part cannot be read to its end."""
    errors = [c for c in verdict.causes if c.severity != "warning"]
    cause = next(iter([*errors, *verdict.causes]), None)
    losses = trace.sql(_LOSS)
    finite = losses.filter(pl.col("loss").is_finite())
    best = finite.sort("loss", "step").head(1)
    manifest = trace.manifest
    started = min([manifest.started_ns, *(e.started_ns for e in manifest.earlier)])
    alive = last_sign_of_life(trace.path) if trace.exit is None else trace.exit.ended_ns / 1e9
    last = losses["loss"][-1] if losses.height else None
    return RunSummary(
        verdict=verdict.verdict,
        run_id=manifest.run_id,
        status=trace.status,
        script=manifest.script,
        started_ns=started,
        seconds=None if alive is None else max(0.0, alive - started / 1e9),
        steps=verdict.run.steps_recorded,
        code=None if cause is None else cause.code,
        fault=None if cause is None else cause.name,
        severity=None if cause is None else cause.severity,
        step=None if cause is None else cause.step,
        step_lower=None if cause is None else cause.step_lower,
        rank=None if cause is None else cause.rank,
        module=None if cause is None else cause.module,
        message=None if cause is None else cause.message,
        causes=[c.name for c in verdict.causes],
        loss_last=finite["loss"][-1] if finite.height else None,
        loss_best=best["loss"][0] if best.height else None,
        loss_best_step=best["step"][0] if best.height else None,
        loss_finite=None if last is None else bool(losses["loss"].is_finite()[-1]),
        loss_curve=_curve(losses),
        settings=run_settings(trace),
        findings=[
            *(_row(f, "cause") for f in verdict.causes),
            *(_row(f, "symptom") for f in verdict.symptoms),
        ],
    )


def findings_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Findings of many runs in the columns of FINDINGS_SCHEMA; absent ones are null."""
    return pl.DataFrame([{c: r.get(c) for c in FINDINGS_SCHEMA} for r in rows], schema=FINDINGS_SCHEMA)


def _row(finding: Finding, role: str) -> dict[str, Any]:
    known = {c: getattr(finding, c) for c in FINDINGS_SCHEMA if hasattr(finding, c)}
    return {"role": role, **known}


def _curve(losses: pl.DataFrame) -> list[float | None]:
    if not losses.height:
        return []
    stretch = pl.int_range(pl.len()) * CURVE_POINTS // max(CURVE_POINTS, losses.height)
    value = pl.when(pl.col("loss").is_finite()).then(pl.col("loss"))
    frame = losses.group_by(stretch.alias("at"), maintain_order=True).agg(value.median().round_sig_figs(4))
    return frame["loss"].to_list()
