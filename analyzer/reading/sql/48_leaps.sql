-- Where a number became far larger than ever, with nothing before it that had grown.

CREATE VIEW unexplained_leaps AS
-- empty without tensor_stats
WITH loaded AS (
    SELECT DISTINCT rank, step FROM checkpoints WHERE action = 'weights'
), spans AS (
    -- activations that are of one size in all steps but one
    SELECT s.rank, s.tensor_id, max(greatest(abs(s.min), abs(s.max))) AS top, arg_max(s.step, greatest(abs(s.min), abs(s.max))) AS step,
        arg_max(s.seq, greatest(abs(s.min), abs(s.max))) AS seq, arg_max(s.microbatch, greatest(abs(s.min), abs(s.max))) AS microbatch,
        (sum(greatest(abs(s.min), abs(s.max))) - max(greatest(abs(s.min), abs(s.max)))) / (count(*) - 1) AS usual, max(s.step) AS last
    FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind = 'activation' AND t.dtype <> 'float16' AND s.phase = 'forward' AND s.max IS NOT NULL
    GROUP BY s.rank, s.tensor_id
    HAVING count(DISTINCT s.step) >= 6 AND max(greatest(abs(s.min), abs(s.max))) > 1e5 * (sum(greatest(abs(s.min), abs(s.max))) - max(greatest(abs(s.min), abs(s.max)))) / (count(*) - 1)
), leaps AS (
    SELECT p.*, t.tensor_name AS tensor, m.module, m.module_id FROM spans p JOIN tensors t ON t.rank = p.rank AND t.tensor_id = p.tensor_id
    LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE p.usual > 0 AND p.step < p.last AND p.step >= 4
      -- what grows from step to step is no accident of one of them
      AND (SELECT max(greatest(abs(e.min), abs(e.max))) FILTER (e.step >= p.step - 3) <= 3 * max(greatest(abs(e.min), abs(e.max))) FILTER (e.step < p.step - 3)
          FROM tensor_stats e WHERE e.rank = p.rank AND e.tensor_id = p.tensor_id AND e.step < p.step)
      AND NOT EXISTS (SELECT 1 FROM loaded l WHERE l.rank = p.rank AND l.step IN (p.step, p.step - 1))
      AND NOT EXISTS (SELECT 1 FROM optimizer_series e WHERE e.rank = p.rank AND e.step BETWEEN p.step - 10 AND p.step - 1 AND e.update_ratio > 0.3)
    QUALIFY row_number() OVER (PARTITION BY p.rank, p.step ORDER BY p.seq) = 1
), upstream AS (
    -- what came before it in the same step, against all that it was in other steps
    SELECT l.rank, l.step, l.seq AS at_seq, s.tensor_id, max(greatest(abs(s.min), abs(s.max))) FILTER (s.step = l.step AND s.seq < l.seq) AS now_,
        max(greatest(abs(s.min), abs(s.max))) FILTER (s.step < l.step) AS before, max(s.seq) FILTER (s.step = l.step AND s.seq < l.seq) AS seq,
        coalesce(max(s.nan_count + s.inf_count) FILTER (s.step = l.step AND s.seq < l.seq), 0) AS lost
    FROM leaps l JOIN tensor_stats s ON s.rank = l.rank AND s.step <= l.step JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    WHERE t.kind IN ('input', 'activation', 'buffer') AND s.phase <> 'eval' GROUP BY l.rank, l.step, l.seq, s.tensor_id
)
SELECT l.*, m.class_name, a.module AS after_module,
    -- its result is bounded by its input and its weights, or by itself
    coalesce(l.tensor LIKE '%:output%' AND regexp_matches(m.class_name, '^(Linear|Bilinear|Conv[123]d|ConvTranspose[123]d|Embedding|EmbeddingBag|LSTM|GRU|RNN|.*Norm([123]d)?|.*Pool[123]d|Dropout[123]?d?|Identity|Flatten|.*ReLU6?|GELU|SiLU|Mish|ELU|SELU|Tanh|Sigmoid|Softmax|MultiheadAttention)$'), false) AS bounded
FROM leaps l LEFT JOIN modules m ON m.rank = l.rank AND m.module_id = l.module_id
LEFT JOIN modules a ON a.rank = l.rank AND a.module_id = (SELECT arg_max(t.module_id, u.seq) FROM upstream u JOIN tensors t ON t.rank = u.rank AND t.tensor_id = u.tensor_id
    WHERE u.rank = l.rank AND u.step = l.step AND u.now_ IS NOT NULL AND t.kind = 'activation' AND t.tensor_name LIKE '%:output%')
WHERE NOT EXISTS (SELECT 1 FROM upstream u WHERE u.rank = l.rank AND u.step = l.step AND (u.now_ > 2 * u.before OR u.lost > 0 OR u.now_ IS NOT NULL AND u.before IS NULL));
COMMENT ON VIEW unexplained_leaps IS 'Activations that are a hundred thousand times their usual size in one step. Nothing before them in the forward pass was above twice its largest value. Here a jump began.';
COMMENT ON COLUMN unexplained_leaps.top IS 'Largest element in that step.';
COMMENT ON COLUMN unexplained_leaps.usual IS 'Average over all other steps of the largest element.';
COMMENT ON COLUMN unexplained_leaps.last IS 'Last step in which it was measured.';
COMMENT ON COLUMN unexplained_leaps.after_module IS 'Module whose output was measured last before it: what it is computed from.';
COMMENT ON COLUMN unexplained_leaps.bounded IS 'Whether a module of torch put it out whose result is bounded by its input and its weights.';
