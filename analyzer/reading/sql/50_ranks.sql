-- Several ranks beside each other.

CREATE VIEW collective_calls AS
-- empty without collectives
SELECT rank, "group", number, min(step) AS step, min(microbatch) AS microbatch, min(seq) AS seq, min(time_ns) AS time_ns, any_value(phase) AS phase,
    any_value(op) AS op, any_value(reduce_op) AS reduce_op, any_value(dtype) AS dtype, any_value(numel) AS numel, any_value(peer) AS peer,
    any_value(blocking) AS blocking, max(waited_ns) AS waited_ns, max(sum_before) AS sum_before, max(size_before) AS size_before,
    max(sum_after) AS sum_after, max(error) AS error, any_value(place) AS place,
    any_value(state) AS state, any_value(timeout_ns) AS timeout_ns, any_value(frames_id) AS frames_id
FROM collectives GROUP BY rank, "group", number;
COMMENT ON VIEW collective_calls IS 'One row for each call of a rank; waited_ns is null where it never returned.';
COMMENT ON COLUMN collective_calls.state IS 'scheduled, started or completed, of an imported dump; null where it does not tell.';

CREATE VIEW calls_missed AS
-- empty without process_groups
WITH dumped AS (
    SELECT DISTINCT rank FROM process_groups
), members AS (
    SELECT "group", rank, max(calls) AS calls FROM process_groups GROUP BY "group", rank
), belonging AS (
    SELECT DISTINCT "group", unnest(ranks) AS rank FROM process_groups
), calls AS (
    SELECT *, coalesce(state IN ('scheduled', 'started'), seq = max(seq) OVER (PARTITION BY rank)) AS open_
    FROM collective_calls WHERE rank IN (SELECT rank FROM dumped) AND NOT ends_with("group", ', between two')
), pending AS (
    SELECT "group", number, list(rank) AS waiting, count(state) > 0 AS told, min(time_ns) AS time_ns, min(time_ns + timeout_ns) AS deadline_ns
    FROM calls GROUP BY "group", number
    -- a call that has ended on one rank was made by all: the others' dumps are older. Where dumps do not tell, whoever went on has passed it
    HAVING CASE WHEN count(state) = 0 THEN bool_and(open_) ELSE bool_or(open_) AND NOT coalesce(bool_or(state = 'completed'), false) END
), absent AS (
    SELECT p."group", p.number, m.rank, true AS dumped FROM pending p JOIN members m ON m."group" = p."group" AND m.calls <= p.number
    UNION ALL
    SELECT p."group", p.number, b.rank, false FROM pending p JOIN belonging b ON b."group" = p."group"
    WHERE b.rank NOT IN (SELECT rank FROM dumped)
), stands AS (
    -- where a rank stands: the call that it waits in for longest, else the last one that it made
    SELECT rank, bool_or(open_ AND state IS NOT NULL) AS waits,
        coalesce(arg_min(seq, time_ns) FILTER (open_ AND state IS NOT NULL), arg_max(seq, time_ns)) AS seq FROM calls GROUP BY rank
)
SELECT a."group", a.number, a.rank, a.dumped, coalesce(s.waits, false) AS waits, c."group" AS at_group, c.number AS at_number, c.op AS at_op,
    c.place AS at_place, p.waiting, p.told, p.time_ns, p.deadline_ns
FROM absent a JOIN pending p ON p."group" = a."group" AND p.number = a.number
LEFT JOIN stands s ON s.rank = a.rank LEFT JOIN calls c ON c.rank = s.rank AND c.seq = s.seq;
COMMENT ON VIEW calls_missed IS 'Calls in imported dumps that some ranks of a group wait in while others have not made them. One row for each rank that has not.';
COMMENT ON COLUMN calls_missed.rank IS 'A rank that had not made the call when its dump was written, or of which there is no dump.';
COMMENT ON COLUMN calls_missed.dumped IS 'Whether there is a dump of this rank.';
COMMENT ON COLUMN calls_missed.waits IS 'Whether this rank itself waits in another call.';
COMMENT ON COLUMN calls_missed.at_group IS 'Group of the call that it waits in, else of the last one that it made; null where it made none.';
COMMENT ON COLUMN calls_missed.at_number IS 'Number of that call in its group.';
COMMENT ON COLUMN calls_missed.at_op IS 'Its function.';
COMMENT ON COLUMN calls_missed.at_place IS 'Line of the script that made it.';
COMMENT ON COLUMN calls_missed.waiting IS 'Ranks that wait in the missed call.';
COMMENT ON COLUMN calls_missed.told IS 'Whether the dumps tell which calls have ended; gloo''s do not.';
COMMENT ON COLUMN calls_missed.time_ns IS 'When the first of them made it.';
COMMENT ON COLUMN calls_missed.deadline_ns IS 'When the first of them would run out of time.';

CREATE VIEW replicas AS
-- empty without steps: rank > 0
WITH world AS (
    SELECT count(DISTINCT rank) AS ranks FROM steps
), named AS (
    -- numbers for names: rows of all ranks and steps are grouped by them
    SELECT t.rank, t.tensor_id, t.tensor_name AS tensor, t.kind, t.replica_ranks, m.module, m.call_order,
        dense_rank() OVER (ORDER BY t.tensor_name, t.kind) AS name_, dense_rank() OVER (ORDER BY t.tensor_name, t.kind, t.replica_ranks) AS place
    FROM tensors t LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE t.kind IN ('parameter', 'gradient', 'update') AND NOT coalesce(len(t.replica_ranks) < 2 OR contains(t.placements, 'Partial'), false)
        AND t.rank IN (SELECT rank FROM steps) AND (SELECT ranks FROM world) > 1
), looks AS NOT MATERIALIZED (
    SELECT n.name_, n.place, s.rank, s.step, s.min, s.max, s.sum, s.sum_sq, s.numel, s.nan_count + s.inf_count AS nonfinite,
        coalesce(s.microbatch, -1)::BIGINT * 4294967296 + coalesce(s.seq, 0) AS look
    FROM tensor_stats s JOIN named n ON n.rank = s.rank AND n.tensor_id = s.tensor_id
    WHERE NOT coalesce(s.missing, false)
), again AS (
    -- of several looks in a step the last one counts
    SELECT rank, step, name_, max(look) AS last_look FROM looks GROUP BY rank, step, name_ HAVING count(*) > 1
), compared AS (
    SELECT l.step, l.place, count(*) AS ranks, min(l.numel) AS least, max(l.numel) AS numel,
        -- extremes do not depend on the order of summing, sums do in their last digits
        min(l.min) <> max(l.min) OR min(l.max) <> max(l.max) OR min(l.nonfinite) <> max(l.nonfinite)
            OR max(l.sum) - min(l.sum) > 1e-5 * sqrt(max(l.numel) * max(l.sum_sq)) OR max(l.sum_sq) - min(l.sum_sq) > 1e-5 * max(l.sum_sq) AS differs,
        max(sqrt(l.sum_sq)) AS norm_most, min(sqrt(l.sum_sq)) AS norm_least
    FROM looks l LEFT JOIN again a ON a.rank = l.rank AND a.step = l.step AND a.name_ = l.name_
    WHERE a.rank IS NULL OR l.look = a.last_look
    GROUP BY l.step, l.place
), places AS (
    SELECT place, any_value(tensor) AS tensor, any_value(kind) AS kind, any_value(replica_ranks) AS replica_ranks, arg_min(module, rank) AS module,
        min(call_order) AS call_order FROM named GROUP BY place
)
SELECT c.step, p.tensor, p.kind, p.module, p.call_order, c.numel, c.differs, c.norm_most, c.norm_least, p.replica_ranks IS NOT NULL AS placed
FROM compared c JOIN places p USING (place)
WHERE c.ranks = coalesce(len(p.replica_ranks), (SELECT ranks FROM world)) AND c.least = c.numel
-- of a tensor that lies as several shards on several ranks each, the shard that differs
QUALIFY row_number() OVER (PARTITION BY c.step, p.tensor, p.kind ORDER BY c.differs DESC, p.replica_ranks) = 1;
COMMENT ON VIEW replicas IS 'Parameters, gradients and updates that all ranks have under one name in a step. It says whether their numbers differ between ranks. For a DTensor only the ranks on which it is replicated count.';
COMMENT ON COLUMN replicas.placed IS 'Whether the placement of a DTensor says that these ranks hold the same.';
COMMENT ON COLUMN replicas.differs IS 'True where extremes differ at all between ranks, or sums by more than their order can.';
COMMENT ON COLUMN replicas.norm_most IS 'Largest L2 norm of the tensor over the ranks.';
COMMENT ON COLUMN replicas.norm_least IS 'Smallest L2 norm of the tensor over the ranks.';

CREATE VIEW batches_alike AS
SELECT count(*) = count(prints) AND count(*) > 0 AS alike FROM (
    SELECT CASE WHEN count(DISTINCT prints) = 1 THEN 1 END AS prints FROM (
        SELECT rank, step, microbatch, field, list_sort(list(fingerprint)) AS prints FROM batches
        WHERE role = 'input' AND phase <> 'eval' AND fingerprint IS NOT NULL GROUP BY rank, step, microbatch, field
    ) GROUP BY step, microbatch, field);
COMMENT ON COLUMN batches_alike.alike IS 'False too where no batch was recorded.';
COMMENT ON VIEW batches_alike IS 'One row: whether all ranks train on the same batches, as those that share the matrices of one model do.';

CREATE VIEW shards_by_hand AS
-- empty without replicas
WITH ways AS (
    SELECT tensor, any_value(module) AS module, bool_and(differs) AS shard, bool_and(NOT differs OR norm_least = 0) FILTER (step = first_step) AND max(norm_least) > 0 AS common
    FROM (SELECT *, min(step) OVER () AS first_step FROM replicas WHERE kind = 'parameter' AND NOT placed) GROUP BY tensor
)
SELECT w.tensor FROM ways w
WHERE (SELECT alike FROM batches_alike)
  AND NOT EXISTS (FROM collectives WHERE starts_with(op, 'all_to_all') OR op LIKE 'DistributedDataParallel%') AND EXISTS (FROM collectives WHERE starts_with(op, 'all_') OR starts_with(op, 'reduce_'))
  AND EXISTS (FROM ways WHERE common AND module IS NOT NULL AND module NOT IN (SELECT module FROM ways WHERE shard AND module IS NOT NULL))
  -- the bias of a sharded matrix begins with zeros everywhere; copies without a module say nothing of what they copy
  AND (w.module IS NULL OR w.module IN (SELECT module FROM ways WHERE shard AND module IS NOT NULL));
COMMENT ON COLUMN shards_by_hand.tensor IS 'Name of the parameter.';
COMMENT ON VIEW shards_by_hand IS 'Parameters of which each rank has a part of its own without a DTensor that says so. They are never equal, in modules beside others that begin equal. Their ranks train on the same batches.';

CREATE VIEW replica_steps AS
-- empty without replicas
WITH compared AS (
    SELECT step, kind, bool_or(differs) AS differs, count(*) FILTER (differs) AS tensors FROM replicas
    WHERE tensor NOT IN (SELECT tensor FROM shards_by_hand) GROUP BY step, kind
), norms AS (
    SELECT step, max(norm) AS most, min(norm) AS least FROM step_series GROUP BY step
), synced AS (
    SELECT step, count(DISTINCT rank) AS ranks FROM collectives WHERE op = 'DistributedDataParallel' GROUP BY step
)
SELECT p.step, p.differs AS parameters_differ, p.tensors, g.differs AS gradients_differ, u.differs AS updates_differ,
    n.most - n.least > 1e-5 * n.most AS norms_differ, coalesce(y.ranks, 0) AS synced_ranks
FROM compared p
LEFT JOIN compared g ON g.step = p.step AND g.kind = 'gradient'
LEFT JOIN compared u ON u.step = p.step AND u.kind = 'update'
LEFT JOIN norms n ON n.step = p.step LEFT JOIN synced y ON y.step = p.step
WHERE p.kind = 'parameter';
COMMENT ON VIEW replica_steps IS 'One row per step of a run of several ranks: what differed between them after it. The norms are those before clipping.';
COMMENT ON COLUMN replica_steps.parameters_differ IS 'Whether any parameter differs after the step.';
COMMENT ON COLUMN replica_steps.tensors IS 'Parameters that differ.';
COMMENT ON COLUMN replica_steps.gradients_differ IS 'Whether any gradient differs as the optimizer found it, after clipping.';
COMMENT ON COLUMN replica_steps.updates_differ IS 'Whether any update differs.';
COMMENT ON COLUMN replica_steps.norms_differ IS 'Whether gradient norms before clipping differ.';
COMMENT ON COLUMN replica_steps.synced_ranks IS 'Ranks that called DistributedDataParallel in the step, outside no_sync.';

CREATE VIEW divergence_of_ranks AS
-- empty without replica_steps: parameters_differ
WITH copies AS (
    SELECT count(*) FILTER (op LIKE 'DistributedDataParallel%') > 0 AS wrapped FROM collectives
), first_ AS (
    SELECT min(step) AS step FROM replica_steps WHERE parameters_differ
), tensor_parallel AS (
    -- ranks that share the matrices of one model and get the same batches hold the rest of it in common; not where tokens are sent to
    -- experts of which each rank has its own
    SELECT EXISTS (FROM tensors t LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
            WHERE t.kind = 'parameter' AND contains(t.placements, 'Shard') AND NOT coalesce(starts_with(m.class_name, 'FSDP'), false))
        AND (SELECT alike FROM batches_alike)
        AND NOT EXISTS (FROM collectives WHERE starts_with(op, 'all_to_all')) AS alike
), given AS (
    -- one rank gave the others all of its parameters, size by size: whoever does that means to train one model
    SELECT bool_and(coalesce(b.broadcasts, 0) >= p.parameters) AS alike FROM
        (SELECT numel, count(*) AS parameters FROM parameters WHERE rank = 0 GROUP BY numel) p LEFT JOIN
        (SELECT numel, count(DISTINCT number) AS broadcasts FROM collectives, first_ f WHERE rank = 0 AND op = 'broadcast' AND collectives.step <= f.step
            GROUP BY numel) b ON b.numel = p.numel
)
SELECT r.*, c.wrapped FROM replica_steps r JOIN first_ f ON f.step = r.step, copies c
WHERE (c.wrapped OR (SELECT alike FROM tensor_parallel) OR (SELECT alike FROM given) OR EXISTS (SELECT 1 FROM replicas p WHERE p.step = r.step AND p.kind = 'parameter' AND p.placed AND p.differs)
    OR EXISTS (SELECT 1 FROM replica_steps e WHERE e.step < r.step AND NOT e.parameters_differ)
    -- equal gradients are averaged ones: whoever averages them trains one model, which must begin as one
    OR NOT r.gradients_differ AND EXISTS (SELECT 1 FROM replicas g WHERE g.step = r.step AND g.kind = 'gradient' AND g.norm_least > 0)
      AND NOT EXISTS (SELECT 1 FROM replica_steps l WHERE l.gradients_differ))
  -- a rank without an optimizer gets the weights of the last step from another one in the next step, of which there is none
  AND NOT (r.step = (SELECT max(step) FROM replica_steps) AND EXISTS (FROM param_groups) AND EXISTS (FROM steps s WHERE s.step = r.step AND s.rank NOT IN (SELECT rank FROM param_groups)))
  -- ranks of unequal numbers of batches (Join), one of which is in its next epoch, or done, where another is not: their steps are not
  -- the same steps any more
  AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.step = r.step HAVING count(DISTINCT s.epoch) > 1)
  AND NOT (EXISTS (SELECT 1 FROM exits WHERE status = 'completed') AND EXISTS (SELECT 1 FROM (SELECT max(step) AS last FROM steps GROUP BY rank) HAVING max(last) - min(last) >= 2))
  -- ranks that train apart and meet again now and then are meant to
  AND NOT EXISTS (SELECT 1 FROM replica_steps l WHERE l.step > r.step AND NOT l.parameters_differ);
COMMENT ON VIEW divergence_of_ranks IS 'The step after which replicas of one model were no longer the same. Empty where they stayed so or never were.';
COMMENT ON COLUMN divergence_of_ranks.wrapped IS 'Whether a model was wrapped by DistributedDataParallel.';

CREATE VIEW whole_stats AS
-- empty without tensors: placements IS NOT NULL
WITH parts AS (
    SELECT s.*, t.tensor_name AS tensor, t.kind, t.placements, t.mesh_ranks, t.shard_ranks, contains(t.placements, 'Partial') AS partial, m.model, m.module,
        row_number() OVER (PARTITION BY s.rank, s.step, s.microbatch, s.phase, s.tensor_id ORDER BY s.seq) AS occurrence
    FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id
    LEFT JOIN modules m ON m.rank = t.rank AND m.module_id = t.module_id
    WHERE t.placements IS NOT NULL AND NOT coalesce(s.missing, false)
), joined AS (
    SELECT step, microbatch, phase, occurrence, tensor, kind, any_value(model) AS model, any_value(module) AS module, placements, partial, mesh_ranks, shard_ranks,
        count(DISTINCT rank) = len(shard_ranks) AS complete, CASE WHEN partial THEN max(numel) ELSE sum(numel)::BIGINT END AS numel,
        CASE WHEN NOT partial THEN sum(nan_count)::BIGINT END AS nan_count, CASE WHEN NOT partial THEN sum(inf_count)::BIGINT END AS inf_count,
        CASE WHEN NOT partial THEN sum(zero_count)::BIGINT END AS zero_count, CASE WHEN NOT partial THEN min(min) END AS min,
        CASE WHEN NOT partial THEN max(max) END AS max, sum(sum) AS sum, CASE WHEN NOT partial THEN sum(sum_sq) END AS sum_sq
    FROM parts GROUP BY step, microbatch, phase, occurrence, tensor, kind, placements, partial, mesh_ranks, shard_ranks
)
SELECT *, sum / nullif(numel - nan_count - inf_count, 0) AS mean, sqrt(sum_sq) AS l2, sqrt(sum_sq / nullif(numel - nan_count - inf_count, 0)) AS rms,
    greatest(abs(min), abs(max)) AS abs_max
FROM joined QUALIFY row_number() OVER (PARTITION BY step, microbatch, phase, occurrence, tensor, kind, mesh_ranks ORDER BY shard_ranks) = 1;
COMMENT ON VIEW whole_stats IS 'Moments of whole DTensors. Shards of the ranks are added, and one of the replicas is taken. Of summands only the sum is known.';
COMMENT ON COLUMN whole_stats.occurrence IS 'Which look at the tensor within the phase, from 1.';
COMMENT ON COLUMN whole_stats.partial IS 'Whether ranks hold summands (Partial): extremes, counts and squares of the tensor do not follow from theirs and are null.';
COMMENT ON COLUMN whole_stats.complete IS 'Whether every rank that holds a part has a row.';
COMMENT ON COLUMN whole_stats.mean IS 'sum / finite elements.';
COMMENT ON COLUMN whole_stats.l2 IS 'Square root of sum_sq.';
COMMENT ON COLUMN whole_stats.rms IS 'Root mean square of the finite elements.';
COMMENT ON COLUMN whole_stats.abs_max IS 'Largest size of a finite element; null where there is none.';
