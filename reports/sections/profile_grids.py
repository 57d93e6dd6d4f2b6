"""What took the time inside a step: operators of profiled steps, and lines that read numbers out of tensors."""

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import duration, number, show_name

MOST = 12

_OPERATORS = """
WITH steps AS (SELECT count(*) AS n, sum(coalesce(host_ns, ns)) AS ns, count(step) AS marked FROM profiled_steps)
SELECT CASE cat WHEN 'module' THEN 'Python code of the forward' ELSE name END AS what, phase, module, class_name,
    sum(calls) / any_value(n) AS calls, sum(self_ns) / any_value(n) AS ns, sum(self_ns) / any_value(steps.ns) AS share,
    any_value(marked) AS marked
FROM operator_times, steps
GROUP BY what, phase, module, class_name ORDER BY ns DESC, what, module LIMIT $most
"""

_READS = """
SELECT place, any_value(code) AS code, avg(reads) AS reads, avg(loop_ns) AS ns, count(*) AS steps
FROM host_reads WHERE rank = $rank GROUP BY place ORDER BY ns DESC, place LIMIT $most
"""


def operator_grid(trace: Trace) -> tuple[str, Grid] | None:
    """Operators of all ranks with their caption, on average over the profiled steps; None where none was profiled."""
    operators = trace.sql(_OPERATORS, {"most": MOST})
    if not operators.height:
        return None
    rows = [
        [
            show_name(row["what"]),
            _module(row["module"], row["class_name"]),
            row["phase"] or "",
            number(float(row["calls"]), digits=3),
            duration(row["ns"]),
            f"{row['share']:.1%}",
        ]
        for row in operators.iter_rows(named=True)
    ]
    if operators["marked"][0]:
        caption = say("Operators of the profiled steps, by own time")
        measures = [say("calls a step"), say("own time a step"), say("of the step")]
    else:
        caption = say("Operators of the profile, by own time")
        measures = ["calls", say("own time"), say("of the profile")]
    return caption, Grid(["operator", "module", "phase", *measures], rows, [False, False, False, True, True, True])


def read_grid(trace: Trace, rank: int) -> tuple[str, Grid] | None:
    """Lines that read numbers out of tensors with their caption; None where no line reads much."""
    reads = trace.sql(_READS, {"rank": rank, "most": MOST})
    if not reads.height:
        return None
    rows = [
        [row["place"], row["code"] or "", f"{row['reads']:.0f}", duration(row["ns"]), str(row["steps"])]
        for row in reads.iter_rows(named=True)
    ]
    heads = ["line", "code", say("reads a step"), say("time of the loop"), say("counted steps")]
    return say("Lines that read numbers out of tensors"), Grid(heads, rows, [False, False, True, True, True])


def _module(name: str | None, class_name: str | None) -> str:
    if class_name is None:
        return ""
    return f"{show_name(name, empty='the model')} ({show_name(class_name)})"
