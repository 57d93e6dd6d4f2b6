"""Norms of sharded gradients: each rank recorded its own part, and the view `steps` shows what they are together."""

_NORMS = ("grad_norm", "clip_norm", "carried_grad_norm")

_JOINED = """
WITH own AS ({steps}), shared AS (
    -- unknown as long as a rank's part is missing: it has not come so far, or has died
    SELECT step, coalesce(optimizer_id, -1) AS held_by, norm, ranks,
        CASE WHEN count(part) = len(ranks) AND count(*) = len(ranks) THEN sum(part * part) END AS square
    FROM norm_parts GROUP BY step, held_by, norm, ranks
), whole AS (
    SELECT p.rank, p.step, s.held_by, p.norm, CASE WHEN count(s.square) = count(*) THEN sqrt(sum(s.square)) END AS value
    FROM norm_parts p JOIN shared s
    ON s.step = p.step AND s.held_by = coalesce(p.optimizer_id, -1) AND s.norm = p.norm AND s.ranks = p.ranks
    GROUP BY p.rank, p.step, s.held_by, p.norm
)
SELECT o.* REPLACE ({values}) FROM own o {joins}
"""


def joined_steps(steps: str) -> str:
    """The statement of the view `steps` over what each rank recorded by itself."""
    values = ", ".join(f'CASE WHEN {n}.rank IS NULL THEN o."{n}" ELSE {n}.value END AS "{n}"' for n in _NORMS)
    joins = " ".join(
        f"LEFT JOIN whole {n} ON {n}.rank = o.rank AND {n}.step = o.step "
        f"AND {n}.held_by = coalesce(o.optimizer_id, -1) AND {n}.norm = '{n}'"
        for n in _NORMS
    )
    return _JOINED.format(steps=steps, values=values, joins=joins)
