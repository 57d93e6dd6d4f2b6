/*
code = "RE003"
name = "stale-metric"
severity = "warning"
phase = "eval"
signal = "metric"
message = "Metric {name} is {value} to the last bit in {count} logs from step {first} to {last}. Meanwhile the weights moved and the training loss went from {loss_from} to {loss_to}. The logged number no longer depends on the weights."
fix = "Look at what {name} is computed from. It may be an old copy of the model, a variable of an earlier evaluation, or a cached batch of outputs. Evaluate the model that is trained."
[params.logs]
value = 5
unit = "logs"
doc = "Equal logs in a row that a loss must reach."
source = "convention: of this project, a loss in floating point seldom repeats itself even once"
[params.scores]
value = 8
unit = "logs"
doc = "Equal logs, and all there are, that a score must reach: a share of few samples may well repeat itself."
source = "convention: of this project, a share of few samples repeats itself by chance"
[params.moved]
value = 1e-4
unit = "relative change"
doc = "Sum of the update ratios between the equal logs."
source = "convention: of this project, weights that moved by less make the same float32 loss"
[params.losses]
value = 4
unit = "losses"
doc = "Losses beside the metric, which go on changing."
source = "convention: of this project, fewer show no way"
[params.fallen]
value = 0.7
unit = "times"
doc = "Loss over that before, from which it has fallen."
source = "convention: of this project, three tenths"
[needs]
tables = ["metrics", "steps", "param_groups"]
columns = ["metrics.value", "param_groups.update_norm"]
[doc]
what = "A logged loss, or a score from its first log on, repeats bit for bit. Meanwhile weights move and the training loss changes."
why = "A continuous function of the weights does not give the same number twice when the weights differ. The number is stale, and decisions made on it are blind."
not_this = "Learning rates, counters, best values so far, weights of losses, whole numbers, a score that was different before. A loss that repeats because training has stopped moving."
source = "Equality of floating-point numbers; the names of metrics decide only which are losses and scores."
*/
WITH named AS (
    SELECT rank, source, name, step, arg_max(value, time_ns) AS value,
        regexp_matches(lower(name), 'loss|nll|ppl|perplex|mse|rmse|entropy|elbo') AS is_loss,
        regexp_matches(lower(name), 'acc|auc|f1|precision|recall|score|iou|dice|bleu|rouge') AS is_score
    FROM metrics
    WHERE isfinite(value)
      AND NOT regexp_matches(lower(name),
          'best|min|max|weight|scale|coef|lambda|target|threshold|smooth|patience|teacher|baseline|ref|init'
          '|first|prev|(^|[^a-z])lr([^a-z]|$)')
    GROUP BY rank, source, name, step
), logs AS (
    SELECT *, row_number() OVER w AS n,
        last_value(value) OVER (PARTITION BY rank, source, name
            ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS final
    FROM named WHERE is_loss OR is_score WINDOW w AS (PARTITION BY rank, source, name ORDER BY step)
), tails AS (
    SELECT l.rank, l.source, l.name, any_value(l.is_loss) AS is_loss, any_value(l.final) AS value,
        count(*) AS count, min(l.n) AS begins, min(l.step) AS first, max(l.step) AS last,
        min(l.step) FILTER (l.n > b.changed + 1) AS step
    FROM logs l
    JOIN (SELECT rank, source, name, coalesce(max(n) FILTER (value <> final), 0) AS changed
        FROM logs
        GROUP BY rank, source, name) b USING (rank, source, name)
    WHERE l.n > b.changed GROUP BY l.rank, l.source, l.name
), moved AS (
    SELECT t.rank, t.source, t.name, avg(s.update_ratio) * count(*) AS way, count(DISTINCT s.loss) AS losses,
        arg_min(s.loss, s.step) AS loss_from, arg_max(s.loss, s.step) AS loss_to
    FROM tails t
    JOIN step_series s ON s.rank = t.rank AND s.step > t.first AND s.step <= t.last AND isfinite(s.loss)
    GROUP BY t.rank, t.source, t.name
)
SELECT t.rank, t.step, t.name, t.value, t.count, t.first, t.last, m.loss_from, m.loss_to
FROM tails t JOIN moved m USING (rank, source, name)
WHERE t.value <> floor(t.value) AND m.way > $moved AND m.losses >= $losses
  AND CASE WHEN t.is_loss THEN t.count >= $logs ELSE t.count >= $scores
      AND t.begins = 1
      AND m.loss_to < $fallen * m.loss_from END
ORDER BY t.step, t.rank, NOT t.is_loss, t.name
