-- What an optimizer keeps for each weight, beside what went into it: state obeys a recurrence that can be checked.

CREATE VIEW optimizer_state_tensors AS
-- empty without tensors: kind = 'optimizer_state'
WITH named AS (
    SELECT t.rank, t.tensor_id, t.tensor_name AS tensor, t.module_id, regexp_extract(t.tensor_name, '[^.]+$') AS key
    FROM tensors t WHERE t.kind = 'optimizer_state'
)
SELECT n.rank, n.tensor_id, n.tensor, n.key, p.tensor_id AS parameter_id, p.tensor AS parameter, p.module, p.call_order, p.class_name,
    p.gradient_id, p.update_id, p.numel, p.optimizer_id, p.group_id
FROM named n JOIN parameters p ON p.rank = n.rank AND p.module_id IS NOT DISTINCT FROM n.module_id
    AND p.tensor = left(n.tensor, len(n.tensor) - len(n.key) - 1);
COMMENT ON VIEW optimizer_state_tensors IS 'Every piece of optimizer state with the weight that it belongs to.';
COMMENT ON COLUMN optimizer_state_tensors.key IS 'Its key in the state of the weight: exp_avg, exp_avg_sq, momentum_buffer …';
COMMENT ON COLUMN optimizer_state_tensors.parameter_id IS 'tensor_id of the weight.';
COMMENT ON COLUMN optimizer_state_tensors.parameter IS 'Name of the weight.';
COMMENT ON COLUMN optimizer_state_tensors.numel IS 'Elements of the weight.';
COMMENT ON COLUMN optimizer_state_tensors.gradient_id IS 'tensor_id of its gradient.';
COMMENT ON COLUMN optimizer_state_tensors.update_id IS 'tensor_id of its update.';

CREATE VIEW optimizer_states AS
-- empty without optimizer_state_tensors
WITH series AS (
    -- few columns: a long run has millions of these rows to sort
    SELECT s.rank, s.tensor_id, s.step, s.seq, s.numel AS sampled, s.sum, s.sum_sq, s.max, s.nan_count + s.inf_count AS nonfinite_count,
        lag(s.step) OVER series AS last_step, lag(s.sum) OVER series AS sum_before, lag(s.sum_sq) OVER series AS sum_sq_before
    FROM tensor_stats s JOIN optimizer_state_tensors n ON n.rank = s.rank AND n.tensor_id = s.tensor_id
    WINDOW series AS (PARTITION BY s.rank, s.tensor_id ORDER BY s.step, s.seq)
), settings AS (
    -- of the group with the weight's number: of the optimizer that owns the weight, else of the newest
    SELECT w.optimizer_id AS wanted_id, g.* FROM param_groups g
    JOIN (SELECT DISTINCT rank, optimizer_id, coalesce(group_id, 0) AS group_id FROM optimizer_state_tensors) w ON w.rank = g.rank AND w.group_id = g.group_id
    QUALIFY row_number() OVER (PARTITION BY g.rank, g.step, g.group_id, w.optimizer_id ORDER BY g.optimizer_id = w.optimizer_id DESC NULLS LAST, g.optimizer_id DESC) = 1
)
SELECT r.rank, r.step, r.seq, r.tensor_id, o.tensor, o.key, o.parameter_id, o.parameter, o.module, o.class_name, o.call_order, o.numel, r.sampled,
    o.gradient_id, o.update_id, r.sum, r.sum_sq, r.max, r.nonfinite_count, r.last_step, r.sum_before, r.sum_sq_before,
    g.optimizer_id, g.group_id, g.optimizer, g.lr, g.momentum, g.beta2, g.eps, g.weight_decay, g.state_step
FROM series r
JOIN optimizer_state_tensors o ON o.rank = r.rank AND o.tensor_id = r.tensor_id
JOIN settings g ON g.rank = r.rank AND g.step = r.step AND g.group_id = coalesce(o.group_id, 0) AND g.wanted_id IS NOT DISTINCT FROM o.optimizer_id;
COMMENT ON VIEW optimizer_states IS 'Every measured piece of optimizer state with its weight. Each row has the measurement before it, and the settings of its group in that step.';
COMMENT ON COLUMN optimizer_states.key IS 'Its key in the state of the weight: exp_avg, exp_avg_sq, momentum_buffer …';
COMMENT ON COLUMN optimizer_states.parameter_id IS 'tensor_id of the weight.';
COMMENT ON COLUMN optimizer_states.parameter IS 'Name of the weight.';
COMMENT ON COLUMN optimizer_states.numel IS 'Elements of the weight.';
COMMENT ON COLUMN optimizer_states.sampled IS 'Elements of the state that were measured.';
COMMENT ON COLUMN optimizer_states.last_step IS 'Step of the measurement before.';
COMMENT ON COLUMN optimizer_states.sum_before IS 'Sum of the same elements in the measurement before.';
COMMENT ON COLUMN optimizer_states.sum_sq_before IS 'Sum of squares of the same elements in the measurement before.';
COMMENT ON COLUMN optimizer_states.state_step IS 'Step counter of the group after the step.';

CREATE VIEW target_syncs AS
-- empty without copies
SELECT rank, step, copy_id, name FROM copies
WHERE kind IN ('module', 'part') AND moved > 0 AND distance < 0.5 * moved;
COMMENT ON VIEW target_syncs IS 'Steps at which a second model has taken over the weights of the one that trains. An example is the target network of a Q network. From there on the training has another goal.';
COMMENT ON COLUMN target_syncs.step IS 'The first step that saw the new weights, or the one before.';
COMMENT ON COLUMN target_syncs.name IS 'What the copy is called.';
