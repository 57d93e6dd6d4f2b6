"""How the values of a few tensors are spread over time: range, mean and standard deviation, from the recorded moments."""

import polars as pl

from ...analyzer import Trace
from ..charts.panel_charts import bands_chart
from ..text.language import say
from ..text.wording import show_name
from .panel import Panel

STRETCHES = 240
MOST_TENSORS = 4

_CHOICE_SQL = """
WITH last_module AS (
    SELECT module_id FROM tensors WHERE rank = $rank AND kind = 'gradient' AND module_id IS NOT NULL
    ORDER BY tensor_id DESC LIMIT 1
), wanted AS (
    SELECT module_id FROM modules WHERE rank = $rank AND module = $suspect
    UNION ALL SELECT module_id FROM last_module WHERE NOT EXISTS (SELECT 1 FROM modules WHERE rank = $rank AND module = $suspect)
)
SELECT t.tensor_id, t.tensor_name, t.kind
FROM tensors t
WHERE t.rank = $rank AND t.module_id IN (SELECT module_id FROM wanted)
  AND t.kind IN ('activation', 'activation_gradient', 'gradient', 'parameter')
  AND EXISTS (SELECT 1 FROM tensor_stats s WHERE s.rank = t.rank AND s.tensor_id = t.tensor_id AND s.sum_sq IS NOT NULL)
QUALIFY row_number() OVER (PARTITION BY t.kind ORDER BY t.tensor_name LIKE '%:input%', t.numel DESC, t.tensor_id) = 1
ORDER BY array_position(['activation', 'activation_gradient', 'gradient', 'parameter'], t.kind) LIMIT $most
"""

_BANDS_SQL = """
SELECT (($width * (s.step // $width)) + $width // 2)::BIGINT AS step, min(s.min) AS low, max(s.max) AS high, sum(s.sum) AS total,
       sum(s.sum_sq) AS sum_sq, sum(s.numel - s.nan_count - s.inf_count)::DOUBLE AS numel
FROM tensor_stats s WHERE s.rank = $rank AND s.tensor_id = $tensor_id AND s.phase <> 'eval' GROUP BY 1 ORDER BY 1
"""

_WORDS = {
    "activation": "output",
    "activation_gradient": "gradient of the output",
    "gradient": "gradient",
    "parameter": "weight",
}


def spread_panel(trace: Trace, rank: int, around: int | None, suspect: str | None) -> Panel | None:
    """Bands of the suspected module's tensors, else of the last one with weights; None where nothing was measured."""
    chosen = trace.sql(_CHOICE_SQL, {"rank": rank, "suspect": suspect, "most": MOST_TENSORS}).to_dicts()
    if not chosen:
        return None
    span = trace.sql("SELECT max(step) - min(step) + 1 FROM steps WHERE rank = $rank", {"rank": rank}).item() or 1
    width = -(-span // STRETCHES)
    bands: list[tuple[str, pl.DataFrame]] = []
    for tensor in chosen:
        raw = trace.sql(_BANDS_SQL, {"rank": rank, "tensor_id": tensor["tensor_id"], "width": width})
        mean = pl.col("total") / pl.col("numel")
        std = pl.max_horizontal(pl.col("sum_sq") / pl.col("numel") - mean**2, pl.lit(0.0)).sqrt()
        frame = raw.filter((pl.col("numel") > 0) & pl.col("total").is_not_null()).select(
            "step", "low", "high", (mean - std).alias("lower"), (mean + std).alias("upper"), mean.alias("mean")
        )
        if frame.height:
            rounded = frame.with_columns(pl.exclude("step").round_sig_figs(4))
            bands.append((f"{show_name(tensor['tensor_name'])} ({say(_WORDS[tensor['kind']])})", rounded))
    if not bands:
        return None
    return Panel(
        "spread",
        say("Distributions over time"),
        say(
            "Pale: from the smallest to the largest element; strong: mean ± standard deviation. Look for a"
            " band that widens from one"
            " step on, narrows to nothing, or leaves zero."
        ),
        chart=bands_chart(bands, around),
        chart_label=say("Range, mean and standard deviation of tensors over steps"),
    )
