"""What took the time inside a step: operators of profiled steps, and lines that read numbers out of tensors."""

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration

MOST = 12

_OPERATORS = """
WITH steps AS (SELECT count(*) AS n, sum(ns) AS ns FROM profiled_steps WHERE rank = $rank)
SELECT CASE cat WHEN 'module' THEN 'Python code of the forward' ELSE name END AS what, phase, module, class_name,
    sum(calls) / any_value(n) AS calls, sum(self_ns) / any_value(n) AS ns, sum(self_ns) / any_value(steps.ns) AS share
FROM operator_times, steps WHERE rank = $rank
GROUP BY what, phase, module, class_name ORDER BY ns DESC, what, module LIMIT $most
"""

_READS = """
SELECT place, any_value(code) AS code, avg(reads) AS reads, avg(loop_ns) AS ns, count(*) AS steps
FROM host_reads WHERE rank = $rank GROUP BY place ORDER BY ns DESC, place LIMIT $most
"""


def profile_grids(trace: Trace, rank: int) -> list[tuple[str, Grid]]:
    """Tables with their captions; none where nothing was profiled and no line reads much."""
    grids: list[tuple[str, Grid]] = []
    operators = trace.sql(_OPERATORS, {"rank": rank, "most": MOST})
    if operators.height:
        rows = [
            [
                row["what"],
                _module(row["module"], row["class_name"]),
                row["phase"] or "",
                f"{row['calls']:.0f}",
                duration(row["ns"]),
                f"{row['share']:.1%}",
            ]
            for row in operators.iter_rows(named=True)
        ]
        heads = ["operator", "module", "phase", say("calls a step"), say("own time a step"), say("of the step")]
        grids.append(
            (
                say("Operators of the profiled steps, by own time"),
                Grid(heads, rows, [False, False, False, True, True, True]),
            )
        )
    reads = trace.sql(_READS, {"rank": rank, "most": MOST})
    if reads.height:
        rows = [
            [row["place"], row["code"] or "", f"{row['reads']:.0f}", duration(row["ns"]), str(row["steps"])]
            for row in reads.iter_rows(named=True)
        ]
        heads = ["line", "code", say("reads a step"), say("time of the loop"), say("counted steps")]
        grids.append(
            (say("Lines that read numbers out of tensors"), Grid(heads, rows, [False, False, True, True, True]))
        )
    return grids


def _module(name: str | None, class_name: str | None) -> str:
    if class_name is None:
        return ""
    return f"{name or 'the model'} ({class_name})"
