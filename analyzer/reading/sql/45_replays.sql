-- What a second run of the model has shown about a lost step.

CREATE VIEW first_bad_operator AS
-- empty without replays: first_bad
SELECT
    r.rank, r.step, r.microbatch, r.capture, r.ordinal, r.phase, r.op, r.node, r.module_id, m.model, m.module, m.class_name,
    r.source, r.code, r.inputs, r.operand, r.operand_min, r.operand_max, r.operand_numel, r.operand_zero_count, r.dtype, r.shape, r.numel,
    r.nan_count, r.inf_count, r.min, r.max, c.reason, c.note,
    r.op || coalesce(' in the backward of ' || lower(regexp_replace(r.node, 'Backward[0-9]*$', '')), '') AS operator,
    ' Run a second time, operator ' || r.op
        || coalesce(' in the backward of ' || lower(regexp_replace(r.node, 'Backward[0-9]*$', '')), '')
        || coalesce(' at ' || r.source, '') || coalesce(' (' || r.code || ')', '')
        || CASE WHEN c.note IS NULL THEN ' was the first to lose a value.'
           ELSE ' was the first to put out a lost value; ' || c.note || '.' END AS sentence
FROM replays r
JOIN captured_steps c ON c.rank = r.rank AND c.step = r.step AND c.capture = r.capture
LEFT JOIN modules m ON m.rank = r.rank AND m.module_id = r.module_id
WHERE r.first_bad
QUALIFY row_number() OVER (PARTITION BY r.rank, r.step ORDER BY r.capture, r.ordinal) = 1;
COMMENT ON VIEW first_bad_operator IS 'The operator that made the first harmful value in a captured step, found by running the model a second time.';
COMMENT ON COLUMN first_bad_operator.module IS 'Innermost module in whose forward it ran; empty for the root, null outside all modules that are known.';
COMMENT ON COLUMN first_bad_operator.operator IS 'The operator in words, with the forward operator to whose backward it belongs.';
COMMENT ON COLUMN first_bad_operator.sentence IS 'A sentence that the messages of rules end in.';

CREATE VIEW lost_outside_graph AS
-- empty without events
SELECT
    rank, step, detail ->> 'op' AS op, detail ->> 'source' AS source, detail ->> 'code' AS code,
    (detail -> 'shape')::BIGINT[] AS shape, (detail ->> 'numel')::BIGINT AS numel,
    (detail ->> 'nan_count')::BIGINT AS nan_count, (detail ->> 'inf_count')::BIGINT AS inf_count,
    (detail ->> 'zeros_in_denominator')::BIGINT AS zeros, (detail ->> 'denominator_numel')::BIGINT AS denominator_numel,
    (detail ->> 'operand_numel')::BIGINT AS operand_numel
FROM events WHERE event = 'lost-outside-graph';
COMMENT ON VIEW lost_outside_graph IS 'Lines that lost numbers of finite ones outside any graph, in the steps after a loss was lost.';
COMMENT ON COLUMN lost_outside_graph.op IS 'Function of torch that lost them.';
COMMENT ON COLUMN lost_outside_graph.source IS 'Its line in the script.';
COMMENT ON COLUMN lost_outside_graph.code IS 'The expression there.';
COMMENT ON COLUMN lost_outside_graph.shape IS 'Shape of its result.';
COMMENT ON COLUMN lost_outside_graph.rank IS 'Rank whose code it was.';
COMMENT ON COLUMN lost_outside_graph.step IS 'Step in which it was seen.';
COMMENT ON COLUMN lost_outside_graph.numel IS 'Elements of its result.';
COMMENT ON COLUMN lost_outside_graph.nan_count IS 'NaN in its result.';
COMMENT ON COLUMN lost_outside_graph.inf_count IS 'Infinities in its result.';
COMMENT ON COLUMN lost_outside_graph.zeros IS 'Exact zeros in the denominator of a division; null for other functions.';
COMMENT ON COLUMN lost_outside_graph.denominator_numel IS 'Elements of the denominator of a division.';
COMMENT ON COLUMN lost_outside_graph.operand_numel IS 'Elements of its first operand.';
