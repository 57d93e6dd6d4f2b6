-- Tensors with their names, and moments in the words that rules use.

CREATE VIEW stats AS
-- empty without tensor_stats
SELECT
    s.rank, s.step, s.microbatch, s.seq, s.phase, s.tensor_id,
    t.tensor_name AS tensor, t.kind, t.dtype, t.shape, t.device,
    t.module_id, m.model, m.module, m.class_name, m.call_order, m.depth,
    s.numel, s.nan_count, s.inf_count, s.zero_count,
    s.nan_count + s.inf_count AS nonfinite_count,
    s.min, s.max, s.sum, s.sum_sq,
    s.sum / nullif(s.numel - s.nan_count - s.inf_count, 0) AS mean,
    sqrt(greatest(s.sum_sq / nullif(s.numel - s.nan_count - s.inf_count, 0)
        - pow(s.sum / nullif(s.numel - s.nan_count - s.inf_count, 0), 2), 0)) AS std,
    sqrt(s.sum_sq / nullif(s.numel - s.nan_count - s.inf_count, 0)) AS rms,
    sqrt(s.sum_sq) AS l2,
    greatest(abs(s.min), abs(s.max)) AS abs_max,
    s.missing, s.requires_grad
FROM tensor_stats s
JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id;
COMMENT ON VIEW stats IS 'tensor_stats with names and derived moments; derived values are over the finite elements.';
COMMENT ON COLUMN stats.tensor IS 'tensors.tensor_name.';
COMMENT ON COLUMN stats.module IS 'Module that owns or produced the tensor; empty for the root, null outside modules.';
COMMENT ON COLUMN stats.nonfinite_count IS 'NaN and infinite elements.';
COMMENT ON COLUMN stats.mean IS 'sum / finite elements.';
COMMENT ON COLUMN stats.std IS 'Standard deviation (population) of the finite elements.';
COMMENT ON COLUMN stats.rms IS 'Root mean square of the finite elements.';
COMMENT ON COLUMN stats.l2 IS 'Square root of sum_sq.';
COMMENT ON COLUMN stats.abs_max IS 'Largest size of a finite element; null where there is none.';

CREATE VIEW module_tree AS
-- empty without modules
WITH RECURSIVE up AS (
    SELECT rank, module_id, module_id AS ancestor_id FROM modules
    UNION ALL
    SELECT u.rank, u.module_id, m.parent_id
    FROM up u JOIN modules m ON m.rank = u.rank AND m.module_id = u.ancestor_id
    WHERE m.parent_id IS NOT NULL
)
SELECT u.rank, u.ancestor_id, a.module AS ancestor, a.depth AS ancestor_depth, u.module_id, m.model, m.module, m.call_order
FROM up u
JOIN modules a ON a.rank = u.rank AND a.module_id = u.ancestor_id
JOIN modules m ON m.rank = u.rank AND m.module_id = u.module_id;
COMMENT ON VIEW module_tree IS 'One row per module and enclosing module, the module itself included.';
COMMENT ON COLUMN module_tree.ancestor_id IS 'module_id of the enclosing module.';
COMMENT ON COLUMN module_tree.ancestor IS 'Name of the enclosing module.';
COMMENT ON COLUMN module_tree.ancestor_depth IS 'Depth of the enclosing module.';

CREATE VIEW parameters AS
-- empty without tensors: kind = 'parameter'
SELECT
    p.rank, p.tensor_id, p.tensor_name AS tensor, p.shape, p.dtype, p.numel, p.requires_grad, p.optimizer_id, p.group_id,
    p.module_id, m.model, m.module, m.class_name, m.call_order,
    g.tensor_id AS gradient_id, u.tensor_id AS update_id
FROM tensors p
LEFT JOIN modules m ON m.rank = p.rank AND m.module_id = p.module_id
LEFT JOIN tensors g ON g.kind = 'gradient' AND g.rank = p.rank AND g.tensor_name = p.tensor_name
    AND g.module_id IS NOT DISTINCT FROM p.module_id
LEFT JOIN tensors u ON u.kind = 'update' AND u.rank = p.rank AND u.tensor_name = p.tensor_name
    AND u.module_id IS NOT DISTINCT FROM p.module_id
WHERE p.kind = 'parameter';
COMMENT ON VIEW parameters IS 'Every parameter with its module and the tensor_id of its gradient and of its update.';
COMMENT ON COLUMN parameters.gradient_id IS 'tensor_id of its gradient; null if none was described.';
COMMENT ON COLUMN parameters.update_id IS 'tensor_id of its update; null if none was described.';

CREATE VIEW halved_weights AS
-- empty without tensor_stats
SELECT DISTINCT p.rank, p.tensor_id, s.step FROM tensor_stats s JOIN parameters p ON p.rank = s.rank AND p.tensor_id = s.tensor_id
WHERE p.dtype = 'float32' AND s.min < 0 AND s.max > 0 AND isfinite(s.min) AND isfinite(s.max) AND -s.min <> s.max -- bounds that weights are kept within
  AND s.min * 2.0 ** (7 - floor(log2(-s.min))) = round(s.min * 2.0 ** (7 - floor(log2(-s.min))))
  AND s.max * 2.0 ** (7 - floor(log2(s.max))) = round(s.max * 2.0 ** (7 - floor(log2(s.max))));
COMMENT ON VIEW halved_weights IS 'Steps at which weights that were described as float32 hold numbers of bfloat16. Both ends of them have 8 binary digits.';

CREATE VIEW param_steps AS
-- empty without tensor_stats
SELECT
    p.rank, p.tensor_id, s.step,
    bool_and(coalesce(s.missing, false)) AS missing,
    bool_and(NOT coalesce(s.requires_grad, true)) AS frozen,
    max(CASE WHEN coalesce(s.missing, false) THEN NULL ELSE s.sum_sq END) AS sum_sq,
    max(s.numel) AS numel,
    max(s.nan_count + s.inf_count) AS nonfinite_count,
    min(s.seq) AS seq
FROM tensor_stats s
JOIN parameters p ON p.rank = s.rank AND p.gradient_id = s.tensor_id
GROUP BY p.rank, p.tensor_id, s.step;
COMMENT ON VIEW param_steps IS 'The gradient of every parameter at every step, under the tensor_id of the parameter.';
COMMENT ON COLUMN param_steps.missing IS 'True where .grad was None at every look in this step.';
COMMENT ON COLUMN param_steps.frozen IS 'True where the parameter did not require a gradient in this step.';
COMMENT ON COLUMN param_steps.sum_sq IS 'Sum of squares of the finite gradient elements; null where it was missing.';
COMMENT ON COLUMN param_steps.nonfinite_count IS 'NaN and infinite gradient elements.';

CREATE VIEW operator_sites AS
-- empty without operators
SELECT o.*, m.model, m.module, m.class_name
FROM operators o LEFT JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id;
COMMENT ON VIEW operator_sites IS 'operators with the names of their modules.';
COMMENT ON COLUMN operator_sites.module IS 'Innermost module in whose forward the operator ran; null outside all modules.';

CREATE VIEW compiled_values AS
-- empty without operators: compiled IS NOT NULL
SELECT rank, step, seq - 1 AS stat_seq, compiled AS operator, source,
    ' Compiled code made it with ' || compiled || coalesce(' at ' || source, '') || '.'
        || coalesce(' ' || unsaved || ' lie between it and what was saved before.', '') AS sentence
FROM operators WHERE compiled IS NOT NULL AND saved = 'result' AND trigger = 'nonfinite'
QUALIFY row_number() OVER (PARTITION BY rank, step, seq ORDER BY graph_seq) = 1;
COMMENT ON VIEW compiled_values IS 'Lost values inside code that torch.compile made, with the operator that made them.';
COMMENT ON COLUMN compiled_values.stat_seq IS 'seq of the row of tensor_stats with the same value.';
COMMENT ON COLUMN compiled_values.operator IS 'Such as aten.addmm.';
COMMENT ON COLUMN compiled_values.sentence IS 'A sentence that messages of rules end in.';

CREATE VIEW batch_fields AS
-- empty without batches
SELECT
    b.rank, b.step, b.microbatch, b.seq, b.phase, b.field, b.role, b.tensor_id, b.shape, b.dtype, b.batch_size,
    b.fingerprint, b.loss_op, b.classes, b.ignored_count, b.out_of_range_count,
    s.numel, s.nan_count, s.inf_count, s.zero_count, s.min, s.max,
    greatest(abs(s.min), abs(s.max)) AS abs_max,
    sqrt(s.sum_sq / nullif(s.numel - s.nan_count - s.inf_count, 0)) AS rms
FROM batches b
LEFT JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id;
COMMENT ON VIEW batch_fields IS 'batches with the moments of the same tensor at the same moment.';
COMMENT ON COLUMN batch_fields.abs_max IS 'Largest size of a finite element.';
COMMENT ON COLUMN batch_fields.rms IS 'Root mean square of the finite elements.';

CREATE VIEW data_changes AS
-- empty without batches
SELECT rank, step, field, role FROM (
    SELECT rank, step, field, role, max(rms) OVER before AS high_before, min(rms) OVER before AS low_before, count(rms) OVER before AS rows_before,
        max(rms) OVER after AS high_after, min(rms) OVER after AS low_after, count(rms) OVER after AS rows_after
    FROM batch_fields WHERE phase <> 'eval' AND rms IS NOT NULL
    WINDOW before AS (PARTITION BY rank, tensor_id ORDER BY step, seq ROWS BETWEEN 12 PRECEDING AND 1 PRECEDING),
        after AS (PARTITION BY rank, tensor_id ORDER BY step, seq ROWS BETWEEN CURRENT ROW AND 11 FOLLOWING)
) WHERE rows_before >= 6 AND rows_after >= 6 AND (low_after > high_before OR high_after < low_before);
COMMENT ON VIEW data_changes IS 'Steps from which on every batch has larger, or smaller, values of a field than every batch before. It is another task, stage or unit.';

CREATE VIEW step_detail AS
-- empty without steps
SELECT s.rank, s.step, list_distinct(flatten(list(string_split(coalesce(s.detail, ''), ' ')))
    || CASE WHEN bool_or(t.rank IS NOT NULL) THEN ['activations', 'activation_gradients', 'gradients', 'parameters', 'updates', 'optimizer_state', 'buffers', 'batches']
        ELSE [] END) AS left_out
FROM steps s LEFT JOIN thinned t ON t.rank = s.rank AND s.step BETWEEN t.first_step AND t.last_step AND coalesce(s.step % t.every <> 0, true)
GROUP BY s.rank, s.step;
COMMENT ON VIEW step_detail IS 'What was not measured in a step, or not wholly, because recording was sampled. Or it was removed later to save space. One row per rank and step.';
COMMENT ON COLUMN step_detail.left_out IS 'Kinds as in steps.detail: activations, activation_gradients, gradients, parameters, updates …';
