/*
code = "NU019"
name = "domain-error"
severity = "error"
phase = "forward"
signal = "min"
message = "{op} got {value} at step {step}, which is outside its domain ({domain}): its result is NaN.{rerun}"
fix = "Guard the operand before {op}. Clamp it into the domain, take abs() where the sign does not matter, or leave such elements out. Find out why {value} occurs. A degree, a variance or a cosine leaves its range by a sign or by rounding."
seeks = [
    [
        "first_bad_operator: phase = 'forward' AND nan_count > 0",
        "nonfinite_origin: nan_count > 0",
    ],
]
explains = ["nonfinite-values", "loss-off-course", "log-of-zero", "sqrt-at-zero", "nonfinite-input"]
[needs]
tables = ["steps"]
[doc]
what = "A function of real numbers made the first non-finite value. Its operand was finite and outside its domain. Examples are a negative number to a fractional power or under a root or logarithm. Others are acos or asin beyond 1. So are atanh or erfinv beyond 1, acosh below 1, and log1p below -1."
why = "IEEE 754 answers NaN there, and everything computed from it is NaN."
not_this = "Operands at the edge of a domain, where the value or the slope is infinite (log-of-zero, sqrt-at-zero, infinite-slope). Operands that were lost before."
source = "Arithmetic: the domains of the real functions."
*/
WITH domains AS (
    FROM (VALUES
        ('log', 0.0, NULL, 'x > 0'), ('log2', 0.0, NULL, 'x > 0'), ('log10', 0.0, NULL, 'x > 0'),
            ('log1p', -1.0, NULL, 'x > -1'),
        ('sqrt', 0.0, NULL, 'x >= 0'), ('rsqrt', 0.0, NULL, 'x > 0'), ('pow', 0.0, NULL, 'x >= 0'),
        ('acos', -1.0, 1.0, '-1 <= x <= 1'), ('asin', -1.0, 1.0, '-1 <= x <= 1'),
            ('acosh', 1.0, NULL, 'x >= 1'),
        ('atanh', -1.0, 1.0, '-1 < x < 1'), ('erfinv', -1.0, 1.0, '-1 < x < 1'),
            ('logit', 0.0, 1.0, '0 < x < 1'), ('kl_div', 0.0, NULL, 'target >= 0')
    ) AS d(op, low, high, domain)
), rerun AS (
    SELECT f.rank, f.step, f.microbatch, NULL::INTEGER AS seq, f.phase, f.module, f.op, f.operand_min AS min,
        f.operand_max AS max, f.operand_numel AS numel,
        f.dtype, f.shape, f.source, f.code, f.sentence AS rerun
    FROM first_bad_operator f WHERE f.phase = 'forward' AND f.nan_count > 0 AND f.note IS NULL
), graph AS (
    -- of a power the exponent is not known, so its result must have been seen to be lost
    SELECT p.rank, p.step, p.microbatch, p.seq,
        CASE WHEN p.module IS NULL THEN 'loss' ELSE 'forward' END AS phase, p.module,
        if(p.op = 'KlDiv', 'kl_div', lower(p.op)) AS op,
        p.min, p.max, p.numel, p.dtype, p.shape, NULL AS source, NULL AS code, '' AS rerun
    FROM operator_sites p JOIN nonfinite_origin o ON o.rank = p.rank AND o.step = p.step
    WHERE (p.saved = 'self' AND p.op <> 'Pow' OR p.op = 'KlDiv')
      AND p.nan_count + p.inf_count = 0
      AND o.nan_count > 0
      -- a target that no loader hands out was computed, by the same code as what the graph shows
      AND (o.kind IN ('loss', 'activation', 'output')
          OR o.kind = 'target' AND NOT EXISTS (FROM batches b
              WHERE b.rank = p.rank AND b.role = 'target' AND b.loader_id IS NOT NULL))
      AND (p.trigger = 'nonfinite' OR o.kind = 'loss' OR p.module_id IS NOT DISTINCT FROM o.module_id)
      AND (p.rank, p.step) NOT IN (SELECT (rank, step) FROM first_bad_operator)
), found AS (
    SELECT r.*, d.domain, CASE WHEN r.min < d.low THEN r.min ELSE r.max END AS value
    FROM (FROM rerun UNION ALL BY NAME FROM graph) r JOIN domains d ON d.op = rtrim(r.op, '_')
    WHERE r.min < d.low OR r.max > d.high
)
FROM found
QUALIFY row_number() OVER (PARTITION BY rank, step ORDER BY seq NULLS FIRST) = 1
ORDER BY step, rank
