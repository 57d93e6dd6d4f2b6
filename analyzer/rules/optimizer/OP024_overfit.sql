/*
code = "OP024"
name = "overfit"
severity = "warning"
phase = "step"
signal = "metrics"
message = "{what_}"
fix = "{remedy_}"
seeks = [
    "metrics: isfinite(value) AND contains(lower(name), 'loss') AND regexp_matches(lower(name), '(^|[^a-z])(val|valid|validation|eval|evaluation|dev|test|held.?out)([^a-z]|$)')",
]
explains = []
slack = 20
[say.what_]
turned = "The model memorises its samples. {name} rose to {value} from its lowest, {lowest} at step {step}. Meanwhile the training loss fell further, from {train_then} to {train_now}."
never_gained = "What the model learns does not carry over to the evaluation at all. {name} was never below {lowest}, and the training loss began at {train_first}. It rose to {value}. Meanwhile the training loss fell from {train_then} to {train_now}."
[say.remedy_]
stop_early = "Take the weights of step {step}; stop early, regularise (dropout, weight decay, augmentation), or train on more data."
compare_the_sets = "Compare the two sets first. Are labels numbered alike in both (a listed folder has no fixed order), and inputs prepared alike? Only if so, the model memorises: regularise, or train on more data."
[params.rise]
value = 0.1
doc = "Rise of the evaluation loss over its lowest."
source = "convention: the rule Overfit of SageMaker Debugger has a ratio of 0.1"
[params.heart]
value = 0.5
doc = "Training loss at the end over that at the turning point below which it is an error. The evaluation has lost more than half of its gain."
source = "convention: of this project, half"
[params.far]
value = 0.25
doc = "And risen by this much."
source = "own history"
[params.lost]
value = 0.05
doc = "Share of all that the evaluation loss had fallen by which it must have risen again: near its floor it scatters by a factor."
source = "own history"
[params.twice]
value = 2.0
unit = "times"
doc = "Or evaluation loss at the end over its lowest, whatever it had gained before: an evaluation of the untrained model is no measure."
source = "own history"
[params.least]
value = 6
unit = "evaluations"
doc = "Values of the metric."
source = "convention: of this project, fewer values have no minimum to speak of"
[params.around]
value = 10
unit = "steps"
doc = "Steps from which the training loss at a moment is told."
source = "convention: of this project, losses of single steps scatter"
[params.half_lost]
value = 0.5
unit = "of what was gained"
doc = "Share of the gain that was lost again."
source = "arithmetic: half"
[params.after]
value = 3
unit = "evaluations"
doc = "Evaluations after the lowest."
source = "convention: of this project, one or two are scatter"
[params.falls]
value = 0.95
unit = "times"
doc = "Training loss over that at the lowest evaluation."
source = "convention: of this project, a twentieth is scatter"
[params.long]
value = 20
unit = "steps"
doc = "Steps of a run, at least."
source = "convention: of this project, fewer are a test"
[needs]
tables = ["metrics", "steps"]
columns = ["metrics.value", "steps.loss"]
steps = 30
[doc]
what = "An evaluation loss, logged or read with item(), keeps rising from a minimum while the training loss falls. It is an error where the loss doubles or loses more than half of its gain. It stays a warning if the script puts other weights back at its end. Where the evaluation was never below the loss that the training began with, labels or inputs of the two sets may not belong together; the words say so."
why = "What is learnt beyond that point does not carry over to other data."
not_this = "One evaluation that stands out, as after a resume. A last value that scatters, also near the floor of the loss. One term of an evaluation loss whose sum does not rise. Evaluation losses that the script neither logs nor reads with item()."
source = "(val - train) / train above 0.1 is a threshold of other tools; here the metric's own minimum counts."
*/
WITH named AS (
    SELECT rank, source, name, step, arg_max(value, time_ns) AS value FROM metrics
    WHERE isfinite(value)
      AND regexp_matches(lower(name),
          '(^|[^a-z])(val|valid|validation|eval|evaluation|dev|test|held.?out)([^a-z]|$)')
      AND contains(lower(name), 'loss')
    GROUP BY rank, source, name, step
), terms AS (
    -- one of several losses of an evaluation may be a term of its loss: they are judged by their sum
    SELECT rank, source, name, step, value,
        CASE
            WHEN regexp_matches(lower(name),
                '(val|valid|validation|eval|evaluation|dev|test'
                '|held.?out)[^a-z]*(total)?[^a-z]*loss$') THEN value
            ELSE sum(value) OVER (PARTITION BY rank, source, step, regexp_replace(name, '[^/]*$', ''))
                END AS whole
    FROM named
), course AS (
    SELECT *, row_number() OVER w AS n, count(*) OVER (PARTITION BY rank, source, name) AS total,
        min(value) OVER (PARTITION BY rank, source, name) AS lowest,
        avg(value) OVER (PARTITION BY rank, source, name
            ORDER BY step ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth,
        avg(whole) OVER (PARTITION BY rank, source, name
            ORDER BY step ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS whole_smooth
    FROM terms WINDOW w AS (PARTITION BY rank, source, name ORDER BY step)
), turned AS (
    SELECT rank, source, name, min(step) FILTER (value = lowest) AS step, min(n) FILTER (value = lowest) AS n,
        any_value(total) AS total, any_value(lowest) AS lowest,
        arg_max(smooth, step) AS value, max(step) AS last_, arg_min(value, step) AS first_,
        arg_max(value, step) AS ends, arg_max(whole_smooth, step) AS whole, min(whole) AS whole_lowest,
        arg_min(whole, step) AS whole_first
    FROM course GROUP BY rank, source, name HAVING any_value(total) >= $least
), restored AS (
    -- after its last step the script puts other weights into the model: those of its best evaluation
    SELECT c.rank
    FROM checkpoints c
    WHERE c.action = 'weights'
      AND c.whole
      AND c.step > (SELECT max(s.step) FROM steps s WHERE s.rank = c.rank AND s.stepped)
), trained AS (
    -- rows, not steps: a log may hold one step in five hundred
    SELECT rank, step, loss, row_number() OVER (PARTITION BY rank ORDER BY step) AS n
    FROM step_series WHERE loss IS NOT NULL
), places AS (
    SELECT t.rank, t.source, t.name, coalesce(max(s.n) FILTER (s.step <= t.step), 1) AS then_,
        coalesce(max(s.n) FILTER (s.step <= t.last_), 1) AS now_
    FROM turned t JOIN trained s ON s.rank = t.rank GROUP BY t.rank, t.source, t.name
), losses AS (
    SELECT p.rank, p.source, p.name,
        median(s.loss) FILTER (s.n BETWEEN p.then_ - $around AND p.then_) AS train_then,
        median(s.loss) FILTER (s.n >= p.now_ - $around) AS train_now,
        median(s.loss) FILTER (s.n <= $around) AS train_first
    FROM places p JOIN trained s ON s.rank = p.rank GROUP BY p.rank, p.source, p.name
)
SELECT t.rank, t.step, t.name, t.value, t.lowest, l.train_then, l.train_now, l.train_first,
    if(t.n = 1 AND t.lowest > l.train_first, 'never_gained', 'turned') AS what_,
    if(what_ = 'turned', 'stop_early', 'compare_the_sets') AS remedy_,
    -- what raised it had come by the next evaluation, which may be part of the next step
    greatest($long,
        (SELECT min(c.step) FROM course c
            WHERE c.rank = t.rank AND c.source = t.source AND c.name = t.name AND c.step > t.step)
            - t.step + 1) AS slack,
    -- it has doubled, or more than half of all that the evaluation had gained is lost again, while the
    -- training loss has halved once more
    CASE WHEN (t.value > $twice * t.lowest AND t.whole > $twice * t.whole_lowest
            OR t.value > (1 + $far) * t.lowest AND t.whole > (1 + $far) * t.whole_lowest
              AND t.value - t.lowest > $half_lost * (t.first_ - t.lowest)
              AND t.whole - t.whole_lowest > $half_lost * (t.whole_first - t.whole_lowest))
        AND l.train_now < $heart * l.train_then
          AND t.rank NOT IN (FROM restored) THEN 'error' ELSE 'warning' END AS severity
FROM turned t JOIN losses l ON l.rank = t.rank AND l.source = t.source AND l.name = t.name
WHERE t.lowest > 0
  AND t.value > (1 + $rise) * t.lowest
  -- one evaluation that stands out is over by the last
  AND least(t.value, t.ends) - t.lowest > $lost * (t.first_ - t.lowest)
  AND t.whole > (1 + $rise) * t.whole_lowest
  AND t.total - t.n >= $after
  AND l.train_now < $falls * l.train_then
QUALIFY row_number() OVER (PARTITION BY t.rank ORDER BY t.value / t.lowest DESC) = 1 ORDER BY t.step, t.rank
