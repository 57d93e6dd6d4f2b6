/*
code = "RE007"
name = "nonfinite-metric"
severity = "error"
phase = "step"
signal = "metric"
message = "{told_}"
fix = "{remedy_}"
seeks = ["metrics: NOT isfinite(value)"]
explains = []
slack = 1
[say.what_]
nan = "NaN"
infinite = "infinite"
[say.fell_]
a_score = " Since then {score} has fallen from {was:.4g} to {now:.4g}."
[say.told_]
turned = "Metric {name} becomes {what_} at step {step}, after {finite_} finite values (the last is {last_finite}). It stays so in all {tail} logs to step {end_}.{fell_}"
never_a_number = "{name} was {what_} in each of {tail} evaluations, from step {step} to {end_}, while the training loss stayed a number (at last {last_finite})."
[say.remedy_]
look_there = "Look at what {name} is computed from at step {step}. It may be an input, a running statistic, or a division by zero or by an empty set. Stop the training there if the model reads the same numbers."
terms_of_the_evaluation = "Look at what the evaluation alone computes: the logarithm or the quotient of a zero, or a mean over nothing. Print torch.isfinite(...).all() of each term for one batch, and give the first that is lost an eps."
[params.before]
value = 5
unit = "logs"
doc = "Finite values before it: a metric that has hardly begun may not be defined yet."
source = "convention: of this project, a metric that has hardly begun may not be defined yet"
[params.tail]
value = 3
unit = "logs"
doc = "Logs to the end of the record that must all be NaN or infinite."
source = "convention: of this project, one or two come from an evaluation without samples"
[params.longer]
value = 3
unit = "times"
doc = "Length of this stretch over the longest one before it: a score of no samples comes and goes."
source = "own history"
[params.fall]
value = 0.5
doc = "Share of its value before the break below which a score or a return is said to have fallen."
source = "convention: of this project, half of what it was"
[needs]
tables = ["metrics"]
columns = ["metrics.value"]
[doc]
what = "A metric that was a number in its logs turns NaN or infinite and is never a number again. Or the loss that is read from every evaluation is no number, while the training loss is one."
why = "Whatever it is computed from is broken from there on, and often the model reads the same numbers. Normalisation by a running mean that is NaN makes every input NaN."
not_this = "A metric that is logged as NaN from the start, or now and then, as a success rate without an episode is. A NaN in the last log or two. A metric that is lost together with the loss."
source = "Arithmetic: a mean that has taken in a NaN stays NaN."
*/
-- shared
WITH logs AS (
    SELECT rank, source, name, step, arg_max(value, time_ns) AS value
    FROM metrics
    WHERE value IS NOT NULL
    GROUP BY rank, source, name, step
), numbered AS (
    SELECT *, is_nonfinite(value) AS broken, row_number() OVER w AS n,
        count(*) OVER (PARTITION BY rank, source, name) AS total,
        count(finite(value)) OVER w AS stretch
    FROM logs WINDOW w AS (PARTITION BY rank, source, name ORDER BY step)
), stretches AS (
    SELECT rank, source, name, stretch, count(*) AS length, min(step) AS step, max(step) AS end_,
        max(n) = any_value(total) AS is_last, any_value(isnan(value)) AS is_nan
    FROM numbered WHERE broken GROUP BY rank, source, name, stretch
)
-- detector: turned
WITH lost AS (
    SELECT s.*,
        coalesce((SELECT max(b.length)
            FROM stretches b
            WHERE b.rank = s.rank AND b.source = s.source AND b.name = s.name AND b.stretch < s.stretch),
            0) AS longest_before
    FROM stretches s WHERE s.is_last AND s.stretch >= $before AND s.length >= $tail
), scores AS (
    -- what the model achieved just before, and in the end
    SELECT l.rank, l.source, l.name, g.name AS score,
        median(g.value) FILTER (g.step < l.step AND g.step >= l.step - (l.end_ - l.step)) AS was,
        arg_max(g.value, g.step) AS is_
    FROM lost l JOIN numbered g ON g.rank = l.rank AND g.source = l.source AND isfinite(g.value)
    WHERE regexp_matches(lower(g.name),
        '(^|[^a-z])(return|reward|score|acc|accuracy|success|f1|map|iou|dice|bleu)([^a-z]|$)')
    GROUP BY l.rank, l.source, l.name, g.name
), fallen AS (
    SELECT *
    FROM scores
    WHERE was > 0 AND is_ < $fall * was
    QUALIFY row_number() OVER (PARTITION BY rank, source, name ORDER BY is_ / was, score) = 1
)
SELECT l.rank, l.step, l.name, 'turned' AS told_, 'look_there' AS remedy_,
    if(l.is_nan, 'nan', 'infinite') AS what_,
    l.stretch AS finite_, l.length AS tail, l.end_,
    (SELECT arg_max(n.value, n.step)
        FROM numbered n
        WHERE n.rank = l.rank AND n.source = l.source AND n.name = l.name AND n.step < l.step) AS last_finite,
    f.score, f.was, f.is_ AS now, CASE WHEN f.score IS NOT NULL THEN 'a_score' END AS fell_
FROM lost l LEFT JOIN fallen f ON f.rank = l.rank AND f.source = l.source AND f.name = l.name
WHERE l.length > $longer * l.longest_before
-- detector: never_a_number
SELECT s.rank, s.step, s.name, 'never_a_number' AS told_, 'terms_of_the_evaluation' AS remedy_,
    if(s.is_nan, 'nan', 'infinite') AS what_, s.length AS tail, s.end_, t.last_finite
FROM stretches s
JOIN (SELECT rank, arg_max(loss, step) AS last_finite FROM step_series
    WHERE loss IS NOT NULL GROUP BY rank HAVING bool_and(isfinite(loss))) t ON t.rank = s.rank
-- one that the script reads from a tensor: what is logged may be NaN or infinite for want of an evaluation
WHERE s.source = 'read' AND contains(s.name, 'loss') AND s.stretch = 0 AND s.is_last AND s.length >= $tail
-- together
SELECT * FROM found ORDER BY step, rank, name
