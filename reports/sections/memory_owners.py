"""Tables of the memory panel: who owns what grows, and what was in memory when it was looked at last."""

from ...analyzer import Trace
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, shape, size

MOST = 12

_OWNERS_SQL = """
SELECT kind, holder, scope, place, expression, element, shape, with_graph, since_step, length, rate, bytes_per_step
FROM memory_growing WHERE rank = $rank AND (looks >= 2 OR with_graph)
ORDER BY bytes_per_step DESC NULLS LAST, length DESC LIMIT $most
"""

_BLOCKS_SQL = """
WITH last AS (
    SELECT step, trigger FROM memory_blocks WHERE rank = $rank ORDER BY trigger = 'oom' DESC, step DESC LIMIT 1
)
SELECT b.step, b.trigger, b.category, b.shape, b.dtype, b.device, b.blocks, b.bytes, b.place, m.module
FROM memory_blocks b JOIN last USING (step, trigger) LEFT JOIN modules m ON m.rank = b.rank AND m.module_id = b.module_id
WHERE b.rank = $rank ORDER BY b.bytes DESC, b.category, b.shape LIMIT $most
"""

_TRIGGERS = {"oom": "when memory ran out", "growth": "when growth was looked at", "end": "at the end"}


def owners_grid(trace: Trace, rank: int) -> Grid | None:
    """One row for each list, dictionary, sum or tensor that was found to grow; None where nothing was."""
    rows = trace.sql(_OWNERS_SQL, {"rank": rank, "most": MOST}).to_dicts()
    if not rows:
        return None
    return Grid(
        [
            say("what grows"),
            "where",
            say("line that adds to it"),
            "gathers",
            say("since step"),
            "length",
            say("per step"),
            say("memory per step"),
        ],
        [
            [
                f"{r['kind']} {r['holder'] or 'without a name'}",
                r["scope"] or "",
                f"{r['place']}: {r['expression']}" if r["place"] else say("not found"),
                r["element"]
                + (f" {shape(r['shape'])}" if r["shape"] else "")
                + (say(", with graph") if r["with_graph"] else ""),
                number(r["since_step"]),
                number(r["length"]),
                number(r["rate"]),
                size(r["bytes_per_step"]) if r["bytes_per_step"] else "",
            ]
            for r in rows
        ],
        [False, False, False, False, True, True, True, True],
    )


def blocks_grid(trace: Trace, rank: int) -> tuple[str, Grid] | None:
    """What was in memory, the largest first, with a caption that says when; None where it was never looked at."""
    rows = trace.sql(_BLOCKS_SQL, {"rank": rank, "most": MOST}).to_dicts()
    if not rows:
        return None
    when = say(
        "In memory {when}, step {step}",
        when=say(_TRIGGERS.get(str(rows[0]["trigger"]), str(rows[0]["trigger"]))),
        step=rows[0]["step"],
    )
    grid = Grid(
        ["category", "shape", "dtype", "device", say("how many"), "memory", say("put out by, or allocated in")],
        [
            [
                r["category"].replace("_", " "),
                shape(r["shape"]) if r["shape"] is not None else "",
                r["dtype"] or "",
                r["device"] or "",
                number(r["blocks"]) if r["blocks"] is not None else "",
                size(r["bytes"]),
                r["place"] or (say("the model") if r["module"] == "" else r["module"] or ""),
            ]
            for r in rows
        ],
        [False, False, False, False, True, True, False],
    )
    return when, grid
