-- Steps as series, with each step's own history beside it.

CREATE VIEW script_ended AS
SELECT status = 'completed' AND NOT EXISTS (FROM events WHERE event = 'ended-early') AS by_itself FROM exits;
COMMENT ON VIEW script_ended IS 'One row: whether the script came to an end of its own, without an error.';
COMMENT ON COLUMN script_ended.by_itself IS 'False too where firstfault ended it, as preflight does after some steps.';

CREATE VIEW acting_models AS
-- empty without module_modes
SELECT DISTINCT c.rank FROM (
    SELECT m.rank, m.module_id, bool_or(m.training AND NOT m.grad) AS acts, bool_and(m.training) AS only_training
    FROM module_modes m JOIN modules d ON d.rank = m.rank AND d.module_id = m.module_id
    WHERE NOT EXISTS (FROM modules o WHERE o.rank = d.rank AND o.module_id = d.parent_id AND o.call_order IS NOT NULL)
    GROUP BY m.rank, m.module_id) c
WHERE c.acts AND c.only_training;
COMMENT ON VIEW acting_models IS 'Ranks on which a model runs without gradients in train mode and never in eval mode. It is an agent, which makes the data that it learns from.';

CREATE VIEW step_series AS
-- empty without steps
WITH groups AS (
    SELECT rank, step, max(lr) AS lr, sqrt(sum(update_norm * update_norm)) AS update_norm,
        sqrt(sum(weight_norm * weight_norm)) AS weight_norm
    FROM param_groups GROUP BY rank, step
), joined AS (
    SELECT
        rank, step, min(time_ns) AS time_ns, bool_and(completed) AS completed, bool_or(stepped) AS stepped,
        bool_or(skipped_by_scaler) AS skipped_by_scaler, sum(microbatches) AS microbatches, avg(loss) AS loss,
        sqrt(sum(grad_norm * grad_norm)) AS grad_norm, max(clip_norm) AS clip_norm,
        sqrt(sum(coalesce(clip_norm, grad_norm) * coalesce(clip_norm, grad_norm))) AS norm,
        max(carried_grad_norm) AS carried_grad_norm, max(loss_scale) AS loss_scale, bool_or(training) AS training,
        sum(eval_forwards) AS eval_forwards, sum(step_ns) AS step_ns, sum(data_wait_ns) AS data_wait_ns,
        sum(forward_ns) AS forward_ns, sum(backward_ns) AS backward_ns, sum(optimizer_ns) AS optimizer_ns,
        sum(recorder_ns) AS recorder_ns, sum(journal_bytes) AS journal_bytes, max(rss_bytes) AS rss_bytes
    FROM steps GROUP BY rank, step
)
SELECT j.*, g.lr, g.update_norm, g.weight_norm, g.update_norm / nullif(g.weight_norm, 0) AS update_ratio
FROM joined j LEFT JOIN groups g USING (rank, step);
COMMENT ON VIEW step_series IS 'One row per rank and step; where several optimizers stepped, their norms are joined and their losses averaged.';
COMMENT ON COLUMN step_series.norm IS 'L2 norm of all gradients before clipping.';
COMMENT ON COLUMN step_series.lr IS 'Largest learning rate of the step.';
COMMENT ON COLUMN step_series.update_norm IS 'L2 norm of the change of all weights in the step.';
COMMENT ON COLUMN step_series.weight_norm IS 'L2 norm of all weights after the step.';
COMMENT ON COLUMN step_series.update_ratio IS 'update_norm / weight_norm.';

CREATE VIEW losses AS
SELECT rank, step, avg(loss) AS loss FROM steps WHERE loss IS NOT NULL GROUP BY rank, step
UNION ALL
SELECT rank, step, loss FROM unwatched_steps WHERE loss IS NOT NULL;
COMMENT ON VIEW losses IS 'Every loss that was read, one row per rank and step: of watched steps and of those that were not.';
COMMENT ON COLUMN losses.loss IS 'Where several optimizers stepped, the mean of their losses.';

CREATE VIEW optimizer_series AS
-- empty without steps
WITH optimizers AS (
    SELECT rank, count(DISTINCT optimizer_id) AS optimizers, min(optimizer_id) AS only_id FROM param_groups GROUP BY rank
), groups AS (
    SELECT rank, step, optimizer_id, min(optimizer) AS optimizer, max(lr) AS lr, max(eps) AS eps,
        sqrt(sum(update_norm * update_norm)) AS update_norm, sqrt(sum(weight_norm * weight_norm)) AS weight_norm
    FROM param_groups GROUP BY rank, step, optimizer_id
), rows_ AS (
    SELECT
        s.rank, s.step, coalesce(o.optimizers, 0) AS optimizers,
        coalesce(s.optimizer_id, CASE WHEN o.optimizers = 1 THEN o.only_id END, -1) AS optimizer_id,
        s.completed, s.stepped, s.skipped_by_scaler, s.microbatches, s.loss, s.grad_norm, s.clip_norm,
        coalesce(s.clip_norm, s.grad_norm) AS norm, s.carried_grad_norm, s.loss_scale
    FROM steps s LEFT JOIN optimizers o ON o.rank = s.rank
    QUALIFY row_number() OVER (
        PARTITION BY s.rank, s.step, coalesce(s.optimizer_id, CASE WHEN o.optimizers = 1 THEN o.only_id END, -1)
        ORDER BY s.completed DESC, s.time_ns DESC) = 1
), measured AS (
    SELECT
        r.*, g.optimizer, g.lr, g.eps, g.update_norm, g.weight_norm,
        g.update_norm / nullif(g.weight_norm, 0) AS update_ratio,
        row_number() OVER (PARTITION BY r.rank, r.optimizer_id ORDER BY r.step) - 1 AS n
    FROM rows_ r LEFT JOIN groups g ON g.rank = r.rank AND g.step = r.step AND g.optimizer_id = r.optimizer_id
), changes AS (
    -- scatter from one row to the next does not mistake the slope of a falling loss for noise
    SELECT *,
        finite(loss) - lag(finite(loss)) OVER series AS loss_change,
        log_size(loss) - lag(log_size(loss)) OVER series AS loss_log_change,
        log_size(norm) - lag(log_size(norm)) OVER series AS norm_log_change
    FROM measured WINDOW series AS (PARTITION BY rank, optimizer_id ORDER BY n)
)
SELECT
    m.* EXCLUDE (loss_change, loss_log_change, norm_log_change),
    count(finite(loss)) OVER past AS history,
    median(finite(loss)) OVER recent AS loss_median,
    greatest(sigma_of(mad(finite(loss)) OVER recent) / 2, sigma_of(mad(loss_change) OVER past) / sqrt(2)) AS loss_sigma,
    median(log_size(loss)) OVER recent AS loss_log_median,
    greatest(sigma_of(mad(log_size(loss)) OVER recent) / 2, sigma_of(mad(loss_log_change) OVER past) / sqrt(2)) AS loss_log_sigma,
    max(finite(loss)) OVER recent AS loss_recent_peak,
    max(finite(loss)) OVER past AS loss_peak,
    max(abs(finite(loss))) OVER before AS loss_size_ever,
    min(finite(loss)) OVER before AS loss_low_ever,
    median(CASE WHEN n < 5 THEN abs(finite(loss)) END) OVER whole AS loss_start,
    median(finite(norm)) OVER recent AS norm_median,
    median(log_size(norm)) OVER recent AS norm_log_median,
    greatest(sigma_of(mad(log_size(norm)) OVER recent) / 2, sigma_of(mad(norm_log_change) OVER past) / sqrt(2)) AS norm_log_sigma,
    max(finite(norm)) OVER recent AS norm_recent_peak,
    max(finite(norm)) OVER past AS norm_peak,
    max(finite(norm)) OVER before AS norm_peak_ever,
    lag(lr) OVER ordered AS lr_before,
    max(lr) OVER before AS lr_peak_ever,
    median(finite(update_ratio)) OVER recent AS ratio_median,
    max(finite(update_ratio)) OVER before AS ratio_peak_ever
FROM changes m
WINDOW
    ordered AS (PARTITION BY rank, optimizer_id ORDER BY n),
    recent AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 12 PRECEDING AND 1 PRECEDING),
    past AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 30 PRECEDING AND 1 PRECEDING),
    before AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    whole AS (PARTITION BY rank, optimizer_id);
COMMENT ON VIEW optimizer_series IS 'One row per rank, optimizer and step, each with its own history (never the row itself), finite values only. Centre and scatter are over the 12 rows before. Changes from row to row and peaks are over the 30 before.';
COMMENT ON COLUMN optimizer_series.optimizer_id IS 'Optimizer; iterations without a step belong to the only optimizer, or to -1 where there are several.';
COMMENT ON COLUMN optimizer_series.optimizers IS 'Optimizers that stepped in this rank over the run.';
COMMENT ON COLUMN optimizer_series.n IS 'Position in the series, from 0.';
COMMENT ON COLUMN optimizer_series.norm IS 'L2 norm of the gradients before clipping.';
COMMENT ON COLUMN optimizer_series.history IS 'Finite losses in the 30 rows before.';
COMMENT ON COLUMN optimizer_series.loss_median IS 'Median loss of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.loss_sigma IS 'Robust scatter of the loss: 1.4826 MAD of the changes from row to row over the 30 rows before, divided by sqrt 2, but at least half of 1.4826 MAD of the 12 rows before (a slope counts half).';
COMMENT ON COLUMN optimizer_series.loss_log_median IS 'Median of ln|loss| of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.loss_log_sigma IS 'The same scatter of ln|loss|.';
COMMENT ON COLUMN optimizer_series.loss_recent_peak IS 'Largest loss of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.loss_peak IS 'Largest loss of the 30 rows before.';
COMMENT ON COLUMN optimizer_series.loss_size_ever IS 'Largest |loss| of all rows before.';
COMMENT ON COLUMN optimizer_series.loss_low_ever IS 'Smallest loss of all rows before.';
COMMENT ON COLUMN optimizer_series.loss_start IS 'Median |loss| of the first five rows: the scale of this loss.';
COMMENT ON COLUMN optimizer_series.norm_median IS 'Median gradient norm of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.norm_log_median IS 'Median of ln(norm) of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.norm_log_sigma IS 'The same scatter of ln(norm).';
COMMENT ON COLUMN optimizer_series.norm_recent_peak IS 'Largest gradient norm of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.norm_peak IS 'Largest gradient norm of the 30 rows before.';
COMMENT ON COLUMN optimizer_series.norm_peak_ever IS 'Largest gradient norm of all rows before.';
COMMENT ON COLUMN optimizer_series.lr_before IS 'Learning rate of the row before.';
COMMENT ON COLUMN optimizer_series.lr_peak_ever IS 'Largest learning rate of all rows before.';
COMMENT ON COLUMN optimizer_series.update_ratio IS 'update_norm / weight_norm of the optimizer.';
COMMENT ON COLUMN optimizer_series.ratio_median IS 'Median update ratio of the 12 rows before.';
COMMENT ON COLUMN optimizer_series.ratio_peak_ever IS 'Largest update ratio of all rows before.';

CREATE VIEW range_tests AS
-- empty without param_groups
WITH growth AS (
    SELECT rank, optimizer_id, step, n, lr, lr / lag(lr) OVER w AS factor, lag(lr / nullif(lr_before, 0)) OVER w AS factor_before
    FROM optimizer_series WHERE lr > 0 WINDOW w AS (PARTITION BY rank, optimizer_id ORDER BY n)
), stretches AS (
    SELECT *, sum(CASE WHEN factor > 1.01 AND abs(ln(factor / factor_before)) < 0.02 THEN 0 ELSE 1 END) OVER (PARTITION BY rank, optimizer_id ORDER BY n) AS stretch
    FROM growth WHERE factor > 0
), found AS (
    SELECT rank, optimizer_id, min(step) AS first_step, max(step) AS last_step, max(lr) AS highest
    FROM stretches GROUP BY rank, optimizer_id, stretch HAVING count(*) >= 20 AND max(lr) > 100 * min(lr)
)
SELECT f.* EXCLUDE (highest) FROM found f
WHERE EXISTS (FROM optimizer_series s WHERE s.rank = f.rank AND s.step BETWEEN f.last_step + 1 AND f.last_step + 2 AND s.lr < 0.2 * f.highest);
COMMENT ON VIEW range_tests IS 'Stretches of an optimizer whose learning rate grows by the same factor at every step, at least a hundredfold. No schedule does this: it is a search for the rate at which the training breaks. It then starts again from a far lower one.';
COMMENT ON COLUMN range_tests.last_step IS 'Last step of the search; the loss may have broken before it.';

CREATE VIEW handovers AS
-- empty without steps: optimizer_id IS NOT NULL
WITH spans AS (
    SELECT rank, optimizer_id, min(step) AS first, max(step) AS last FROM steps WHERE optimizer_id IS NOT NULL GROUP BY rank, optimizer_id
), starts AS (
    SELECT n.rank, n.optimizer_id, n.first AS step FROM spans n
    WHERE n.first > 0 AND NOT EXISTS (FROM spans o WHERE o.rank = n.rank AND o.first < n.first AND o.last >= n.first)
), trained_before AS (
    SELECT DISTINCT u.rank, u.optimizer_id
    FROM (
        SELECT h.rank, h.optimizer_id, h.step, s.tensor_id FROM starts h
        JOIN spans w ON w.rank = h.rank AND w.optimizer_id = h.optimizer_id
        JOIN tensors p ON p.rank = h.rank AND p.kind = 'update'
        JOIN tensor_stats s ON s.rank = p.rank AND s.tensor_id = p.tensor_id AND s.step BETWEEN h.step AND w.last
        GROUP BY ALL
    ) u
    JOIN tensor_stats b ON b.rank = u.rank AND b.tensor_id = u.tensor_id AND b.step < u.step
)
SELECT h.rank, h.optimizer_id, h.step, t.optimizer_id IS NULL AS fresh
FROM starts h LEFT JOIN trained_before t ON t.rank = h.rank AND t.optimizer_id = h.optimizer_id;
COMMENT ON VIEW handovers IS 'Steps at which an optimizer takes over for good from all that stepped before. It is another stage, fold or member of a sweep in one process. Or it is the same training with a new optimizer.';
COMMENT ON COLUMN handovers.fresh IS 'Whether none of its parameters had been trained before: another model, with which the history of the run has nothing to do.';

CREATE VIEW looks_back AS
-- empty without batches: phase = 'eval'
WITH trained AS (
    SELECT DISTINCT rank, step, fingerprint FROM batches WHERE phase <> 'eval' AND fingerprint IS NOT NULL
)
SELECT e.rank, e.step FROM batches e
LEFT JOIN trained t ON t.rank = e.rank AND t.fingerprint = e.fingerprint AND t.step BETWEEN e.step - 1 AND e.step
WHERE e.phase = 'eval' AND e.role = 'input' GROUP BY e.rank, e.step HAVING bool_and(t.step IS NOT NULL);
COMMENT ON VIEW looks_back IS 'Steps in which the model saw without gradients only the batch that it trains on or just trained on. This is a look at the training, as for its accuracy, and no evaluation.';
