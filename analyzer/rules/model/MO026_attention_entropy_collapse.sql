/*
code = "MO026"
name = "attention-entropy-collapse"
severity = "error"
phase = "forward"
signal = "attention_entropy"
message = "From step {step} on attention in {place_} {how_}. The entropy of its weights goes from {entropy_before} to {entropy} nats (of at most {most}). {percent} % of its rows give all their weight to one key (before: {percent_before} %){and_}. Its logits are so far apart that the softmax passes hardly any gradient back."
fix = "Normalise queries and keys, scale logits by 1/sqrt(d), lower the learning rate or warm up longer. Find what made the logits grow. It may be weights written or loaded in between, a lost scale, or an update that was too large."
seeks = ["probes: probe IN ('attention_sure', 'attention_entropy') AND isfinite(value)"]
explains = ["gradients-vanish", "nothing-learnt", "loss-off-course"]
[say.place_]
outside = "code outside modules"
root = "the model ({class_name})"
named = "{module} ({class_name})"
[say.how_]
at_once = "loses its choice from one look to the next"
bit_by_bit = "has become sure bit by bit"
[say.and_]
loss_no_better = ", and the loss is no better for it"
[params.fall]
value = 0.2
doc = "Entropy after, as a share of the median before, at a fall from one look to the next."
source = "own history"
[params.stay]
value = 0.4
doc = "Share that no later look may exceed."
source = "own history"
[params.looks]
value = 5
unit = "looks"
doc = "Looks that there must be before the fall; from it on at least 4."
source = "convention: of this project, fewer do not show what is usual"
[params.sure]
value = 0.9
doc = "Share of rows with a weight above 1 - 2^-20, where attention has become hard bit by bit."
source = "convention: of this project, nearly all rows"
[params.gone]
value = 2e-6
unit = "nats"
doc = "Entropy of a row whose other weights together are below the resolution of float32 (2^-23): no gradient passes, whatever the loss does."
source = "arithmetic: p (1 - ln p) of p = 2^-23"
[params.better]
value = 0.9
doc = "A loss below this share of the one before the fall says that the attention has learned what it does."
source = "own history"
[params.window]
value = 16
unit = "looks"
doc = "Looks before, from which it is told what is usual."
source = "convention: of this project, as many as show a level"
[params.after]
value = 3
unit = "looks"
doc = "Looks after the fall."
source = "convention: of this project, with it four"
[params.even]
value = 0.25
doc = "Entropy before the fall, beside that of even attention."
source = "convention: of this project, a quarter of what there could be"
[params.level]
value = 0.5
unit = "of the median"
doc = "Least entropy before the fall."
source = "convention: of this project, it had not fallen that far before"
[params.soft]
value = 0.1
unit = "of the rows"
doc = "Share of rows with one weight up to which attention was not hard."
source = "convention: of this project, a tenth of the rows"
[params.loss_before]
value = 6
unit = "steps"
doc = "Steps before it from which the loss is told."
source = "convention: of this project, losses of single steps scatter"
[params.loss_after]
value = 5
unit = "steps"
doc = "Steps after it from which the loss is told."
source = "arithmetic: with the step itself six"
[needs]
tables = ["probes", "steps"]
columns = ["probes.scale"]
steps = 9
[doc]
what = "The weights of an attention were spread over several keys. Then they are on single keys to the end of the run. They move there from one look to the next, or gradually, while the loss is no lower than before. Or the weights of nearly all rows have become exactly one key, in float32."
why = "The gradient through a saturated softmax is below the resolution of float32. Queries and keys stop learning, and instability follows."
not_this = "Rows that may see one key only, attention that was like this from the beginning. Attention that becomes sharp while the loss falls and still passes gradients, other numbers of keys. Weights put in by load_state_dict."
source = "Arithmetic of float32: with one weight above 1 - 2^-20 every other is below 1e-6 of it. The fall is measured against the run's own history."
*/
WITH looks AS (
    SELECT rank, coalesce(module_id, -1) AS module_id, step, max(scale) AS keys,
        avg(value) FILTER (probe = 'attention_sure') AS sure,
        avg(value) FILTER (probe = 'attention_entropy') AS entropy
    FROM probes WHERE probe IN ('attention_sure', 'attention_entropy') AND isfinite(value) GROUP BY ALL
), history AS (
    SELECT *, entropy / ln(keys) AS share, row_number() OVER w AS n,
        count(*) OVER (PARTITION BY rank, module_id) AS total,
        lag(step) OVER w AS step_before, lag(keys) OVER w AS keys_before, lag(entropy) OVER w AS last_entropy,
        median(entropy) OVER (w ROWS BETWEEN $window PRECEDING AND 1 PRECEDING) AS before,
            min(entropy) OVER (w ROWS BETWEEN $window PRECEDING AND 1 PRECEDING) AS least,
        median(sure) OVER (w ROWS BETWEEN $window PRECEDING AND 1 PRECEDING) AS sure_before,
        max(entropy) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS most_after,
        median(entropy) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS after,
        median(sure) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS sure_after,
        coalesce(max(step) FILTER (sure < $sure) OVER (PARTITION BY rank, module_id), -1) AS last_soft
    FROM looks WINDOW w AS (PARTITION BY rank, module_id ORDER BY step)
), sudden AS (
    SELECT *, 'at_once' AS how_, step AS since FROM history
    WHERE n > $looks AND total - n >= $after AND step - step_before <= 2 AND keys = keys_before
      AND before > $even * ln(keys)
        AND least > $level * before
        AND last_entropy > $level * before
        AND entropy < $fall * before
        AND most_after < $stay * before
      AND NOT EXISTS (SELECT 1
          FROM events e
          WHERE e.rank = history.rank
            AND e.event = 'resume'
            AND e.step BETWEEN history.step_before AND history.step)
), slow AS (
    SELECT h.*, 'bit_by_bit' AS how_,
        coalesce((SELECT max(g.step)
            FROM history g
            WHERE g.rank = h.rank AND g.module_id = h.module_id AND g.step < h.step AND g.sure <= $soft),
            0) AS since
    FROM history h
    WHERE h.step > h.last_soft
      AND coalesce(h.step_before, -1) <= h.last_soft
      AND h.total - h.n >= $after
      AND h.n > $looks
      AND h.sure_after >= $sure
      AND (SELECT median(g.sure)
          FROM history g
          WHERE g.rank = h.rank AND g.module_id = h.module_id AND g.n <= $looks) <= $soft
), found AS (
    SELECT * FROM sudden UNION ALL BY NAME SELECT * FROM slow
), losses AS (
    SELECT rank, step, avg(loss) AS loss FROM steps WHERE isfinite(loss) GROUP BY rank, step
), judged AS (
    SELECT f.*,
        (SELECT median(l.loss)
            FROM losses l
            WHERE l.rank = f.rank AND l.step BETWEEN f.since - $loss_before AND f.since - 1) AS loss_before,
        (SELECT median(l.loss)
            FROM losses l
            WHERE l.rank = f.rank AND l.step BETWEEN f.step AND f.step + $loss_after) AS loss_after
    FROM found f
)
SELECT f.rank, f.step, m.module, f.after AS value, m.class_name, f.how_, round(f.before, 3) AS entropy_before,
    round(f.after, 3) AS entropy, round(ln(f.keys), 2) AS most,
    floor(in_percent(f.sure_after))::INT AS percent, floor(in_percent(f.sure_before))::INT AS percent_before,
        f.loss_before, f.loss_after,
    CASE WHEN f.loss_after < f.loss_before THEN NULL ELSE 'loss_no_better' END AS and_,
    CASE WHEN m.module IS NULL THEN 'outside' WHEN m.module = '' THEN 'root' ELSE 'named' END AS place_
FROM judged f LEFT JOIN modules m ON m.rank = f.rank AND m.module_id = f.module_id
WHERE f.loss_after IS NULL
  OR f.loss_before IS NULL
  OR (f.after < $gone AND f.sure_after >= $sure AND f.sure_before <= $soft)
  OR f.loss_after >= CASE WHEN f.loss_before > 0 THEN $better * f.loss_before ELSE f.loss_before END
ORDER BY f.step, f.rank, m.call_order
