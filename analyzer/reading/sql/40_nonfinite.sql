-- Where numbers stopped being numbers. A non-finite element alone is no fault: a mask of -inf is wanted, a GradScaler
-- looks for its limit by overflowing. A step is bad when a loss, a gradient that would be used, or a weight is hit.

CREATE VIEW bad_steps AS
-- empty without steps: is_nonfinite(loss) OR is_nonfinite(grad_norm) OR is_nonfinite(clip_norm) | tensor_stats: nan_count > 0 OR inf_count > 0
WITH skipped AS (
    SELECT rank, step FROM steps GROUP BY rank, step HAVING bool_or(coalesce(skipped_by_scaler, false))
), unfinished AS (
    SELECT DISTINCT rank, step FROM tensor_stats
    EXCEPT SELECT rank, step FROM steps WHERE completed
), signs AS (
    SELECT rank, step, 'loss' AS sign FROM steps WHERE is_nonfinite(loss)
    UNION ALL
    SELECT s.rank, s.step, 'gradient' FROM steps s
    WHERE (is_nonfinite(s.grad_norm) OR is_nonfinite(s.clip_norm)) AND (s.rank, s.step) NOT IN (SELECT (rank, step) FROM skipped)
    UNION ALL
    SELECT s.rank, s.step, t.kind
    FROM (FROM tensor_stats WHERE nan_count > 0 UNION ALL FROM tensor_stats WHERE inf_count > 0 AND coalesce(nan_count, 0) = 0) s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE s.phase <> 'eval' AND (
        (t.kind = 'loss' AND (s.rank, s.step) NOT IN (SELECT (rank, step) FROM skipped))
        OR t.kind = 'parameter' AND s.nan_count > 0 OR t.kind = 'parameter' AND s.phase = 'optimizer'
        OR t.kind = 'gradient' AND (s.rank, s.step) NOT IN (SELECT (rank, step) FROM skipped)
        OR s.nan_count > 0 AND t.kind IN ('activation', 'output') AND (s.rank, s.step) IN (SELECT (rank, step) FROM unfinished)
        -- where the activations were not measured, what entered the model speaks for them
        OR s.nan_count > 0 AND t.kind = 'input' AND (s.rank, s.step) IN (SELECT (rank, step) FROM unfinished)
            AND (s.rank, s.step) IN (SELECT (rank, step) FROM steps WHERE detail LIKE '%activations%'))
)
SELECT rank, step, list(DISTINCT sign ORDER BY sign) AS signs FROM signs
-- a search for the rate at which the training breaks has found it
WHERE NOT EXISTS (FROM range_tests t WHERE t.rank = signs.rank AND signs.step BETWEEN t.first_step AND t.last_step)
GROUP BY rank, step;
COMMENT ON VIEW bad_steps IS 'Steps in which a loss, a gradient that was not skipped by a GradScaler, or a weight was not finite. Or NaN reached the step in which the run broke off.';
COMMENT ON COLUMN bad_steps.signs IS 'What was hit: loss, gradient, parameter, activation, output.';

CREATE VIEW nonfinite AS
-- empty without tensor_stats: nan_count > 0 OR inf_count > 0
WITH lost AS (
    -- two conditions, each of which the files' own minima and maxima answer; their sum would be a scan
    SELECT * FROM stats WHERE nan_count > 0
    UNION ALL
    SELECT * FROM stats WHERE inf_count > 0 AND coalesce(nan_count, 0) = 0
)
SELECT s.rank, s.step, s.microbatch, s.seq, s.phase, s.tensor_id, s.tensor, s.kind, s.dtype, s.shape, s.module_id, s.model,
    s.module, s.class_name, s.numel, s.nan_count, s.inf_count, s.min, s.max, b.step IS NOT NULL AS bad_step
FROM lost s LEFT JOIN bad_steps b ON b.rank = s.rank AND b.step = s.step;
COMMENT ON VIEW nonfinite IS 'Every tensor that was not finite at some moment, in (rank, step, seq) order if you ask for it.';
COMMENT ON COLUMN nonfinite.bad_step IS 'Whether the step is one of bad_steps.';

CREATE VIEW nonfinite_origin AS
-- empty without bad_steps
WITH first_bad AS (
    SELECT rank, min(step) AS step FROM bad_steps GROUP BY rank
), usual AS (
    -- infinities that earlier steps had without harm: masks
    SELECT DISTINCT n.rank, n.tensor_id FROM nonfinite n JOIN first_bad f ON f.rank = n.rank
    WHERE n.step < f.step AND n.kind NOT IN ('gradient', 'activation_gradient')
), inside AS (
    SELECT s.rank, s.step, s.seq, s.tensor_id FROM tensor_stats s
    JOIN first_bad f ON f.rank = s.rank AND f.step = s.step
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'input'
    WHERE s.requires_grad AND (
        (s.rank, s.step) IN (SELECT (rank, step) FROM steps WHERE detail LIKE '%activations%') -- none was measured: it is taken for one
        OR EXISTS (
            SELECT 1 FROM tensor_stats e JOIN tensors a ON a.rank = e.rank AND a.tensor_id = e.tensor_id AND a.kind = 'activation'
            WHERE e.rank = s.rank AND e.step = s.step AND e.seq < s.seq))
), rows_ AS (
    -- what enters a model with a graph, after other modules have run in the step, was computed by the script and is no data
    SELECT n.rank, n.step, n.microbatch, n.seq, CASE WHEN i.rank IS NULL THEN n.phase ELSE 'forward' END AS phase, n.tensor_id, n.tensor,
        CASE WHEN i.rank IS NULL THEN n.kind ELSE 'activation' END AS kind, n.dtype, n.shape, n.module_id, n.model,
        n.module, n.class_name, n.numel, n.nan_count, n.inf_count, n.min, n.max
    FROM nonfinite n JOIN first_bad f ON f.rank = n.rank AND f.step = n.step
    LEFT JOIN inside i ON i.rank = n.rank AND i.step = n.step AND i.seq = n.seq AND i.tensor_id = n.tensor_id
    WHERE n.phase <> 'eval'
      AND NOT (n.nan_count = 0 AND (n.rank, n.tensor_id) IN (SELECT (rank, tensor_id) FROM usual))
      -- a field of -inf and one other value is a mask
      AND NOT (n.kind IN ('input', 'target') AND n.nan_count = 0 AND coalesce(n.min = n.max, false))
    UNION ALL BY NAME
    -- the step's own scalars, for a recording without tensors
    SELECT s.rank, s.step, 2147483647 AS seq,
        CASE WHEN is_nonfinite(s.loss) THEN 'loss' ELSE 'backward' END AS phase,
        CASE WHEN is_nonfinite(s.loss) THEN 'loss' END AS tensor,
        CASE WHEN is_nonfinite(s.loss) THEN 'loss' ELSE 'gradient' END AS kind
    FROM steps s JOIN first_bad f ON f.rank = s.rank AND f.step = s.step
    WHERE is_nonfinite(s.loss) OR is_nonfinite(s.grad_norm) OR is_nonfinite(s.clip_norm)
), origin AS (
    SELECT * FROM rows_ QUALIFY row_number() OVER (PARTITION BY rank ORDER BY seq, tensor_id) = 1
), owner AS (
    -- what enters a module without being another module's output was computed by the code of the module round it
    SELECT o.rank, arg_max(t.ancestor_id, t.ancestor_depth) AS owner_id
    FROM origin o
    JOIN module_tree t ON t.rank = o.rank AND t.module_id = o.module_id AND t.ancestor_id <> o.module_id
    JOIN modules a ON a.rank = t.rank AND a.module_id = t.ancestor_id AND a.call_order IS NOT NULL
    WHERE o.kind = 'activation' AND regexp_matches(o.tensor, ':input[0-9]+$')
    GROUP BY o.rank
)
SELECT o.* REPLACE (
    coalesce(w.owner_id, o.module_id) AS module_id, coalesce(m.module, o.module) AS module, coalesce(m.class_name, o.class_name) AS class_name)
FROM origin o
LEFT JOIN owner w ON w.rank = o.rank
LEFT JOIN modules m ON m.rank = w.rank AND m.module_id = w.owner_id;
COMMENT ON VIEW nonfinite_origin IS 'The first tensor, in order of capture, that was not finite in the first bad step of each rank.';
COMMENT ON COLUMN nonfinite_origin.module IS 'Module whose code computed it: for an input that no other module put out, the module round the one it entered.';

CREATE VIEW lost_in_backward AS
-- empty without bad_steps
WITH broken AS (
    SELECT rank, step FROM steps GROUP BY rank, step
    HAVING bool_and(isfinite(loss)) AND bool_or(is_nonfinite(grad_norm) OR is_nonfinite(clip_norm) OR coalesce(skipped_by_scaler, false))
), forward_lost AS (
    SELECT DISTINCT rank, step FROM nonfinite WHERE kind IN ('activation', 'output', 'loss') AND nan_count > 0 AND phase <> 'eval'
)
SELECT s.rank, s.step FROM bad_steps s JOIN broken b ON b.rank = s.rank AND b.step = s.step
WHERE NOT list_contains(s.signs, 'loss') AND (s.rank, s.step) NOT IN (SELECT (rank, step) FROM forward_lost);
COMMENT ON VIEW lost_in_backward IS 'Steps with a finite loss and a finite forward pass whose gradients are not finite: a derivative was infinite.';
