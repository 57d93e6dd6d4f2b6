"""Weights that are frozen from the first step on although nothing was loaded into them: they stay as they were drawn."""

from ...analyzer import Trace
from ..text.language import say
from ..text.wording import plural
from .preflight_facts import Fact

_LEAST = 2
"""Weight matrices from which it is a part of a model. A single one may be a basis that is drawn on purpose, as of random
features (Rahimi & Recht 2007)."""

_FROZEN = (
    "SELECT count(*) AS count, arg_min(tensor, tensor_id) AS first FROM parameters"
    " WHERE rank = 0 AND optimizer_id IS NOT NULL AND requires_grad = false AND len(shape) >= 2"
    # a table of word vectors comes from elsewhere, by whatever way
    " AND class_name NOT LIKE 'Embedding%'"
    " AND (SELECT count(*) FROM parameters WHERE rank = 0 AND optimizer_id IS NOT NULL AND requires_grad) > 0"
)


def frozen_as_drawn(trace: Trace) -> list[Fact]:
    """Frozen weight matrices that an optimizer holds, in a script that loads no weights."""
    loaded = trace.has("checkpoints") and trace.sql("SELECT count(*) FROM checkpoints WHERE action <> 'saved'").item()
    if loaded or not trace.has("tensors"):
        return []
    row = trace.sql(_FROZEN).row(0, named=True)
    if row["count"] < _LEAST:
        return []
    words = say(
        "{count} that the optimizer holds are frozen, first {first}, and the script has loaded no weights: they stay as they were"
        " drawn. Load them, or let them train.",
        count=plural(row["count"], "weight tensor"),
        first=row["first"],
    )
    return [("learning", "frozen as drawn", "doubtful", words)]
