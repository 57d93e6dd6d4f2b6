-- A loss that left its band for good. Shared by the rules that explain it and the rule that names it.

CREATE VIEW loss_levels AS
-- empty without steps
-- not every step has a row: the run is measured by its step numbers
SELECT rank, max(step) - min(step) + 1 AS steps, arg_min(loss, step) AS first_loss, median(loss) FILTER (2 * step >= last) AS late_loss
FROM (SELECT *, max(step) OVER (PARTITION BY rank, optimizer_id) AS last FROM optimizer_series)
WHERE isfinite(loss) AND optimizers <= 1
GROUP BY rank;
COMMENT ON VIEW loss_levels IS 'One row for each rank of one optimizer. It says where its loss began, and where it is in the second half of the run.';
COMMENT ON COLUMN loss_levels.steps IS 'Steps from the first loss to the last, watched or not.';
COMMENT ON COLUMN loss_levels.first_loss IS 'The first finite loss.';
COMMENT ON COLUMN loss_levels.late_loss IS 'Median of the finite losses in the second half.';

CREATE VIEW divergences AS
-- empty without steps
WITH series AS (
    SELECT *, greatest(loss_sigma, 0.05 * abs(loss_median)) AS spread,
        min(finite(loss)) OVER (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest_low
    FROM optimizer_series
), ahead AS (
    -- medians of all that is to come are dear: taken only where the loss ever stays above its band, as it does in few runs
    SELECT *,
        median(finite(loss)) OVER rest AS rest_median,
        count(finite(loss)) OVER rest AS rest_rows,
        bool_or(is_nonfinite(loss)) OVER rest AS rest_breaks,
        median(finite(loss)) OVER onset AS onset_median,
        median(CASE WHEN from_end <= 10 THEN finite(loss) END) OVER rest AS end_median,
        max(finite(norm)) OVER near AS near_norm,
        bool_or(is_nonfinite(norm)) OVER rest AS norm_breaks
    FROM (SELECT *, row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n DESC) AS from_end FROM series)
    WHERE (rank, optimizer_id) IN (
        SELECT (rank, optimizer_id) FROM series WHERE history >= 8 AND rest_low > loss_median + 3 * spread AND rest_low > loss_median + 0.2 * abs(loss_median))
    WINDOW
        onset AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING),
        rest AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING),
        near AS (PARTITION BY rank, optimizer_id ORDER BY n ROWS BETWEEN 3 PRECEDING AND 10 FOLLOWING)
), judged AS (
    SELECT * FROM ahead WHERE history >= 8 AND isfinite(loss)
      AND NOT EXISTS (FROM range_tests r WHERE r.rank = ahead.rank AND r.optimizer_id = ahead.optimizer_id AND ahead.step BETWEEN r.first_step AND r.last_step)
)
SELECT rank, optimizer_id, optimizers, step, n, loss, loss_median, loss_sigma, loss_start, norm, norm_median, near_norm, lr, lr_before, lr_peak_ever,
    update_ratio, ratio_median, rest_low, rest_median, rest_rows, coalesce(rest_breaks, false) AS rest_breaks
FROM judged
WHERE (rest_rows >= 10 OR (rest_rows >= 3 AND rest_breaks))
  -- it never comes back to where it was
  AND rest_low > loss_median + 3 * spread AND rest_low > loss_median + 0.2 * abs(loss_median)
  -- and is far away from it, in its own spread, in its level, and on the scale of the whole run
  AND rest_median > loss_median + 10 * spread AND rest_median > loss_median + abs(loss_median)
  AND rest_median - loss_median > 0.05 * loss_start
  -- it is not learning again what is new to it: the end is not much better than the onset
  AND (rest_breaks OR end_median > 0.5 * onset_median)
  -- the gradients agree
  AND (norm_breaks OR near_norm > 3 * norm_median OR norm_median IS NULL)
  -- a loss that changes its sign, or several that play against each other, must leave everything ever seen
  AND ((optimizers <= 1 AND loss_low_ever > 0) OR abs(rest_median) > 2 * greatest(loss_size_ever, 1e-12))
  -- and what a game between several starts with is no level: at first one of them always gains on another
  AND (optimizers <= 1 OR n >= 20)
QUALIFY row_number() OVER (PARTITION BY rank, optimizer_id ORDER BY n) = 1;
COMMENT ON VIEW divergences IS 'The row from which the loss of an optimizer stays above its band to the end of the run. One row per rank and optimizer at most.';
COMMENT ON COLUMN divergences.near_norm IS 'Largest gradient norm from three rows before to ten after.';
COMMENT ON COLUMN divergences.rest_low IS 'Smallest loss from this row to the end.';
COMMENT ON COLUMN divergences.rest_median IS 'Median loss from this row to the end.';
COMMENT ON COLUMN divergences.rest_rows IS 'Finite losses from this row to the end.';
COMMENT ON COLUMN divergences.rest_breaks IS 'Whether the loss becomes non-finite after this row.';
