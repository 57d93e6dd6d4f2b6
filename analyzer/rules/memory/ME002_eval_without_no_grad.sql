/*
code = "ME002"
name = "eval-without-no-grad"
severity = "warning"
phase = "eval"
signal = "eval_grad_forwards"
message = "Before step {step} the model ran {value} evaluation forwards with gradients on: each builds a graph that nobody uses."
fix = "Put the evaluation under torch.no_grad() or torch.inference_mode()."
seeks = ["steps: eval_grad_forwards > 0"]
explains = ["memory-short"]
[params.least]
value = 2
unit = "forwards"
doc = "Forwards in a bout; one is enough of a model that was switched to evaluation for it."
source = "convention: of this project, one forward may be a look at the model's shape"
[params.jump]
value = 1.25
unit = "times"
doc = "Memory of such a step over that of the step before, from which it is an error: own history."
source = "own history"
[needs]
tables = ["steps"]
columns = ["steps.eval_grad_forwards"]
[doc]
what = "Forwards in eval mode run with autograd on, and no backward follows, while training steps run in train mode. This is an error where memory is a quarter above that of the step before."
why = "Memory for a backward that never comes. Of a large model the largest peak of the run, of a small one only waste."
not_this = "Training in eval mode, gradients with respect to inputs (a backward follows)."
source = "Flags and counts."
*/
SELECT rank, step, eval_grad_forwards AS value,
    CASE WHEN held >= $jump * held_before THEN 'error' ELSE 'warning' END AS severity
FROM (
  SELECT *,
      lag(held) OVER (PARTITION BY rank ORDER BY step) AS held_before,
      greatest(coalesce(median(forwards - backwards) FILTER (coalesce(eval_grad_forwards,
          0) = 0) OVER (PARTITION BY rank),
          0),
          0) AS usual
  FROM (
    SELECT rank, step, sum(eval_grad_forwards) AS eval_grad_forwards, any_value(calls) AS calls,
        bool_or(training) AS training, max(coalesce(cuda_peak_bytes, rss_bytes)) AS held,
        length(any_value(calls)) - length(replace(any_value(calls), 'f', '')) AS forwards,
            length(any_value(calls)) - length(replace(any_value(calls), 'b', '')) AS backwards
    FROM steps GROUP BY rank, step)) bouts
-- metrics that are modules, or a model that feeds another without gradients, are called in every step
WHERE least(coalesce(eval_grad_forwards, 0), forwards - backwards - usual) >= CASE
    WHEN EXISTS (FROM events e
        WHERE e.rank = bouts.rank
          AND e.step = bouts.step
          AND e.event = 'mode-changed'
          AND contains(e.message, 'evaluation')) THEN 1 ELSE $least END
  AND coalesce(training, true)
ORDER BY step, rank
