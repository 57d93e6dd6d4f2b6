/*
code = "RE010"
name = "generator-reseeded"
severity = "warning"
phase = "step"
signal = "rng"
message = "{what_}{seeded_} {drawn_}: order, dropout, noise."
fix = "Seed once, before the training. Give an evaluation or a sampling its own torch.Generator, or put it into torch.random.fork_rng(), which brings the training's state back."
explains = []
[say.what_]
returns = "At the end of step {step} torch's random state is bit by bit that of step {earlier}; it had moved on in between. In {again} of {steps} steps the state is one that was there before."
stands = "From step {step} on torch's random state is the same at the end of each of {again} steps, because the script seeds it in each of them."
[say.drawn_]
returns = "What is drawn from there on was drawn before"
stands = "What is drawn after a seed is the same each time, for each sample where a data set does it"
[say.seeded_]
by_script = " torch.manual_seed was called {calls} times during the training, last with {seed}."
[params.least]
value = 3
unit = "steps"
doc = "Steps whose random state had been there before."
source = "convention: of this project, fewer repeat next to nothing"
[params.standing]
value = 10
unit = "steps"
doc = "The same where each step is seeded anew."
source = "convention: of this project, fewer are a short test"
[needs]
columns = ["steps.rng"]
[doc]
what = "The generator's state returns to an earlier one while the same training goes on. Or torch.manual_seed is called in each step with one seed, as by a data set for each sample."
why = "From a state that returns the same numbers are drawn again. The training sees the same few orders, noises and dropout masks over and over, which no loss shows."
not_this = "A state that stays as it is, where nothing is drawn. Another training in the same process: an optimizer or a model was found in between. A training that goes back: weights were loaded in between. A state that was put back once, not by torch.manual_seed."
source = "Equality of 64 bits: a hash of the whole state; by chance it does not come back."
*/
-- shared
WITH states AS (
    SELECT rank, step, rng, lag(rng) OVER w AS before, min(step) OVER (PARTITION BY rank, rng) AS earlier,
        count(*) OVER (PARTITION BY rank) AS steps
    FROM steps WHERE completed AND rng IS NOT NULL
    WINDOW w AS (PARTITION BY rank ORDER BY step)
), seeds AS (
    SELECT rank, count(*) AS calls, arg_max(detail->>'seed', step) AS seed,
        count(DISTINCT detail->>'seed') AS different, count(DISTINCT step) AS places
    FROM events WHERE event = 'seeded' AND step > 0 GROUP BY rank
)
-- detector: returns
WITH returns AS (
    -- jump: the step before was no return from just before, so the state was put back here
    SELECT s.*,
        lag(s.earlier) OVER (PARTITION BY s.rank ORDER BY s.step) IS DISTINCT FROM s.earlier - 1 AS jump
    FROM states s
    WHERE s.earlier < s.step AND s.rng <> s.before
        AND NOT EXISTS (FROM events e
            WHERE e.rank = s.rank AND e.event IN ('optimizer-found', 'model-found', 'rolled-back')
                AND e.step > s.earlier AND e.step <= s.step)
        AND NOT EXISTS (FROM checkpoints c WHERE c.rank = s.rank AND c.action = 'weights'
            AND c.step > s.earlier AND c.step <= s.step)
)
SELECT r.rank, min(r.step) AS step, arg_min(r.earlier, r.step) AS earlier, count(*) AS again,
    any_value(r.steps) AS steps, any_value(s.calls) AS calls, any_value(s.seed) AS seed, count(*) AS value,
    CASE WHEN any_value(s.calls) > 0 THEN 'by_script' END AS seeded_,
    'returns' AS what_, 'returns' AS drawn_, 'warning' AS severity
FROM returns r LEFT JOIN seeds s USING (rank)
GROUP BY r.rank
HAVING count(*) >= $least AND (count(*) FILTER (r.jump) > 1 OR any_value(s.calls) > 1)
-- detector: stands
SELECT r.rank, min(r.step) - 1 AS step, min(r.step) - 1 AS earlier, count(*) AS again,
    any_value(r.steps) AS steps, any_value(s.calls) AS calls, any_value(s.seed) AS seed, count(*) AS value,
    'by_script' AS seeded_, 'stands' AS what_, 'stands' AS drawn_, 'error' AS severity
FROM states r JOIN seeds s USING (rank)
WHERE r.rng = r.before AND s.calls >= r.steps - 1 AND s.different = 1
GROUP BY r.rank
HAVING count(*) >= $standing AND count(*) >= any_value(s.places)
-- together
ORDER BY step, rank
