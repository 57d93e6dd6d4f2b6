/*
code = "MO025"
name = "representation-collapse"
severity = "error"
phase = "forward"
signal = "spread"
message = "From step {step} on the outputs of {place_} run together: {how_} falls from {before} to {value}{against_}, and stays there. Every sample gets nearly the same output."
fix = "Keep a term that drives outputs apart (negatives, variance, stop-gradient on one branch). Lower the learning rate. Check what the loss rewards when all outputs are equal."
explains = ["shuffled-labels", "nothing-learnt", "gradients-vanish"]
slack = 20
[say.place_]
root = "the model ({class_name})"
named = "{module} ({class_name})"
[say.how_]
batch_std = "their spread over the batch"
direction_std = "the spread of their directions"
[say.against_]
nothing_else_learnt = " with all that they are, and the loss falls by nothing else"
their_size = ", {percent:.2g} % of their size"
any_direction = " (near 1 where they point anywhere, 0 where all point one way)"
[params.relative]
value = 0.03
doc = "Spread over the batch, as a share of the root mean square of the output."
source = "convention: of this project, outputs of a model that tells samples apart vary by a tenth of their size at least"
[params.fall]
value = 0.05
doc = "And as a share of what the spread of the same output has been."
source = "own history"
[params.start]
value = 0.1
doc = "Share of the root mean square that the spread must have had before."
source = "own history"
[params.direction]
value = 0.2
doc = "Spread of directions below which outputs point one way: a mean cosine above 0.96 between samples."
source = "arithmetic: a spread s of directions is a mean cosine of 1 - s^2"
[params.turn]
value = 0.25
doc = "And as a share of what it has been."
source = "own history"
[params.drawn]
value = 0.35
doc = "Spread of directions below which outputs run together if the loss falls with it: a mean cosine above 0.88 between samples."
source = "arithmetic: a spread s of directions is a mean cosine of 1 - s^2"
[params.drawn_turn]
value = 0.45
doc = "And as a share of what it has been."
source = "own history"
[params.with_loss]
value = 0.9
doc = "Correlation of the loss with the square of that spread since it was largest: the mean cosine is 1 less that square."
source = "arithmetic: four fifths of the variance of the loss are explained then (0.9 squared)"
[params.shrunk]
value = 0.2
doc = "Share of its first spread to which an output that shrinks as a whole must fall, if the loss falls by nothing else."
source = "own history"
[params.together]
value = 0.98
doc = "Squared correlation of ln(loss) with ln(spread) from which nothing else is left of the loss."
source = "arithmetic: one fiftieth of the variance is left for all else"
[params.halved]
value = 0.6
doc = "Share of its lowest value to which the loss falls in one step where a term of it was left out. There the shrinking may begin."
source = "own history"
[params.looks]
value = 20
doc = "Looks at the output that such a judgement needs."
source = "arithmetic: a correlation of 0.9 over 20 looks comes by chance less than once in a million times"
[params.most_views]
value = 4
unit = "calls"
doc = "Calls of a module before one backward that can be views of the samples. More are a loop over time inside a forward."
source = "convention: two views, four with a second encoder that follows (SimCLR, BYOL)"
[params.steps]
value = 5
unit = "steps"
doc = "Steps in a row, to the end of the run."
source = "convention: of this project, fewer are an odd batch"
[params.come_back]
value = 1.15
unit = "times"
doc = "Level over the lowest before, from which it had come back up."
source = "convention: of this project, a seventh is scatter"
[params.pointed]
value = 0.4
doc = "Spread of directions that they must have had before."
source = "convention: of this project, a mean cosine below 0.84 between samples"
[params.foot]
value = 0.85
unit = "of its level"
doc = "Spread over the batch from which it had not begun to fall."
source = "convention: of this project, a seventh below is scatter"
[params.foot_direction]
value = 0.95
unit = "of its level"
doc = "The same of directions, which scatter less."
source = "convention: of this project, a twentieth below is scatter"
[params.start_steps]
value = 4
unit = "steps"
doc = "First steps, in which what began counts from the start."
source = "convention: of this project, what shows then began with the run"
[params.before]
value = 8
unit = "steps"
doc = "Steps with a loss before a term of it can be said to be left out."
source = "convention: of this project, fewer have no scatter to speak of"
[params.width]
value = 4
unit = "features"
doc = "Width of an embedding, rather than of a value."
source = "convention: of this project, outputs of one to three numbers are values"
[params.slope]
value = 0.8
doc = "Least power of the size with which such a loss falls."
source = "arithmetic: one, for an absolute distance, less the scatter"
[params.slope_square]
value = 2.2
doc = "Largest power from the start."
source = "arithmetic: two, for a squared distance, and scatter"
[params.slope_fourth]
value = 4.2
doc = "Largest power after a term was left out."
source = "arithmetic: four, for a squared covariance, and scatter"
[params.ahead]
value = 40
unit = "steps"
doc = "Steps before, in which a later layer still spread."
source = "convention: of this project, as many as show its level"
[needs]
tables = ["probes", "modules"]
columns = ["probes.scale"]
steps = 8
[doc]
what = "The samples of an output of two dimensions differed, and from some step to the end hardly differ any more. They differ less in size, against their own size and against before. Or they differ less in direction, where a model is run on two to four views before one backward. A smaller fall in direction suffices where the loss falls with the spread of directions. Or the output shrinks with all its samples while the loss between views falls exactly as a power of it. Then the loss falls by nothing but the shrinking. This is advice where the loss does not fall with the collapse: then something other than a loss between views has done it."
why = "An output that is the same for every sample carries nothing about it; what follows can only learn a constant."
not_this = "Directions inside a model at whose end samples still differ, layers that a forward calls at every step of a sequence, batches of one sample many times over. Outputs that start equal (a layer initialised with zeros), that get a large common part, or that come back. Outputs that shrink as a whole while the loss falls by more than that."
source = "Standard deviation of normalised outputs, by which self-supervised learning watches for collapse."
*/
-- shared
WITH counted AS (
    -- many ranks make millions of looks, nearly all of one row: medians of these would fill the memory
    SELECT p.rank, p.module_id, p.tensor_id, p.step, p.probe, count(*) AS rows_, any_value(p.value) AS spread,
        any_value(CASE
            WHEN p.probe = 'batch_std' THEN p.value / nullif(p.scale, 0)
            ELSE p.value
            END) AS share
    FROM probes p WHERE p.probe IN ('batch_std', 'direction_std') AND isfinite(p.value) AND isfinite(p.scale)
    GROUP BY p.rank, p.module_id, p.tensor_id, p.step, p.probe
), looks AS (
    SELECT * EXCLUDE (rows_), 1::DOUBLE AS views FROM counted WHERE rows_ = 1
    UNION ALL
    SELECT c.rank, c.module_id, c.tensor_id, c.step, c.probe, median(p.value) AS spread,
        CASE
            WHEN c.probe = 'batch_std' THEN median(p.value / nullif(p.scale, 0))
            ELSE median(p.value)
            END AS share,
            count(*) / count(DISTINCT p.microbatch) AS views
    FROM counted c
    JOIN probes p ON p.rank = c.rank
        AND p.module_id IS NOT DISTINCT FROM c.module_id
        AND p.tensor_id IS NOT DISTINCT FROM c.tensor_id
        AND p.step = c.step
        AND p.probe = c.probe
    WHERE c.rows_ > 1 AND isfinite(p.value) AND isfinite(p.scale)
    GROUP BY c.rank, c.module_id, c.tensor_id, c.step, c.probe
), history AS (
    SELECT *, row_number() OVER (PARTITION BY rank, tensor_id, probe ORDER BY step) AS n FROM looks
    -- a direction is what a loss between views is about; a regression may well point one way
    QUALIFY probe = 'batch_std' OR quantile_cont(views, 0.1) OVER (PARTITION BY rank, tensor_id, probe)
        BETWEEN 2 AND $most_views
), losses AS (
    SELECT rank, step, any_value(loss) AS loss
    FROM optimizer_series
    WHERE optimizers = 1 AND isfinite(loss)
    GROUP BY rank, step
    HAVING count(*) = 1
)
-- shared: drawn
WITH widest AS (
    -- of all looks, and of the later ones: a stop-gradient may be lost in the middle
    SELECT h.rank, h.tensor_id, h.probe, f.part, arg_max(h.n, h.spread) AS n
    FROM (SELECT *, max(n) OVER (PARTITION BY rank, tensor_id, probe) AS looks
        FROM history
        WHERE probe = 'direction_std') h
    CROSS
        JOIN (VALUES (0.0), (0.33), (0.5), (0.67)) AS f(part)
        WHERE h.n > f.part * h.looks
        GROUP BY h.rank, h.tensor_id, h.probe, f.part
)
-- a loss of cosines between views that falls because all outputs turn one way; with a stop-gradient it
-- falls while they spread
SELECT h.rank, h.tensor_id, h.probe, arg_min(h.spread, h.n) AS level
FROM history h
JOIN widest w ON w.rank = h.rank AND w.tensor_id = h.tensor_id AND w.probe = h.probe AND h.n >= w.n
JOIN losses l ON l.rank = h.rank AND l.step = h.step
GROUP BY h.rank, h.tensor_id, h.probe, w.part
HAVING count(*) >= $looks AND corr(l.loss, h.spread * h.spread) > $with_loss
-- from where it had come back up before
QUALIFY row_number() OVER (PARTITION BY h.rank, h.tensor_id, h.probe ORDER BY NOT coalesce(
    level > $come_back * (SELECT min(b.spread)
        FROM history b
        WHERE b.rank = h.rank AND b.tensor_id = h.tensor_id AND b.probe = h.probe AND b.n < min(h.n)),
        false),
        w.part) = 1
-- detector: collapses
WITH peaks AS (
    -- the level from which it fell
    SELECT rank, tensor_id, probe, median(spread) AS level
    FROM history
    WHERE share >= CASE probe WHEN 'batch_std' THEN $start ELSE $pointed END
    GROUP BY rank, tensor_id, probe
    HAVING count(*) >= 1
), low AS (
    SELECT h.*, coalesce(d.level, p.level) AS level, d.probe IS NOT NULL AS drawn_,
        CASE WHEN h.probe = 'batch_std' THEN h.share < $relative AND h.spread < $fall * p.level
        WHEN d.probe IS NOT NULL AND h.spread < $drawn AND h.spread < $drawn_turn * d.level THEN true
        ELSE h.spread < $direction AND h.spread < $turn * p.level END AS is_low
    FROM history h
    JOIN peaks p USING (rank, tensor_id, probe)
    LEFT JOIN drawn d USING (rank, tensor_id, probe)
), tails AS (
    SELECT rank, module_id, tensor_id, probe, any_value(level) AS before, bool_or(drawn_) AS drawn_,
        coalesce(max(n) FILTER (NOT is_low), 0) AS last_good, max(n) AS n
    FROM low
    GROUP BY rank, module_id, tensor_id, probe
), collapsed AS (
    SELECT t.rank, t.module_id, t.tensor_id, t.probe, t.before, t.drawn_,
        -- back to where it last was near its level: what began there went on
        coalesce((SELECT max(l.step)
            FROM low l
            WHERE l.rank = t.rank
              AND l.tensor_id = t.tensor_id
              AND l.probe = t.probe
              AND l.n <= t.last_good
              AND l.spread >= CASE t.probe WHEN 'batch_std' THEN $foot ELSE $foot_direction END * t.before),
            0) AS foot,
        (SELECT min(l.step)
            FROM low l
            WHERE l.rank = t.rank
              AND l.tensor_id = t.tensor_id
              AND l.probe = t.probe
              AND l.n > t.last_good) AS down,
        (SELECT median(l.spread)
            FROM low l
            WHERE l.rank = t.rank
              AND l.tensor_id = t.tensor_id
              AND l.probe = t.probe
              AND l.n > t.last_good) AS value,
        (SELECT median(l.share)
            FROM low l
            WHERE l.rank = t.rank
              AND l.tensor_id = t.tensor_id
              AND l.probe = t.probe
              AND l.n > t.last_good) AS share
    FROM tails t WHERE t.n - t.last_good >= $steps AND t.last_good >= 1
)
SELECT c.*, CASE WHEN c.down - c.foot <= 1 THEN c.down WHEN c.foot < $start_steps THEN 0
        -- where not every step was looked at, what had not begun by then had by the next look
        WHEN a.step > c.foot + 1 THEN a.step ELSE c.foot END AS begun
FROM collapsed c
LEFT JOIN LATERAL (SELECT min(l.step) AS step
    FROM low l
    WHERE l.rank = c.rank
      AND l.tensor_id = c.tensor_id
      AND l.probe = c.probe
      AND l.step > c.foot) a ON true
-- detector: shrinks
WITH turns AS (
    -- from the start, or from where the loss drops by a half or nearly from one step to the next below all
    -- that it has been: another term of it was left out
    SELECT DISTINCT rank, 0 AS turn FROM losses WHERE loss > 0
    UNION ALL
    SELECT rank, min(step) FROM (
        SELECT rank, step, loss, min(loss) OVER w AS lowest, count(*) OVER w AS steps
        FROM losses
        WHERE loss > 0
        WINDOW w AS (PARTITION BY rank ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    WHERE steps >= $before AND loss < $halved * lowest GROUP BY rank
), embeddings AS (
    SELECT DISTINCT t.rank, t.module_id
    FROM tensors t
    JOIN (SELECT rank, tensor_id
        FROM tensor_stats
        WHERE requires_grad
        GROUP BY rank, tensor_id) s ON s.rank = t.rank AND s.tensor_id = t.tensor_id
    WHERE t.kind = 'activation' AND len(t.shape) = 2 AND t.shape[2] >= $width
), shrinking AS (
    -- a squared distance between views falls with the square of their size, an absolute one with its first
    -- power, what is learnt about them falls faster or elsewhere;
    -- what a variance term has left behind when it went may hold a squared covariance, which falls with the
    -- fourth
    SELECT h.rank, h.module_id, h.tensor_id, h.probe, arg_min(h.spread, h.n) AS before,
        arg_max(h.spread, h.n) AS value, arg_max(h.share, h.n) AS share, t.turn
    FROM history h
    JOIN losses l ON l.rank = h.rank AND l.step = h.step AND l.loss > 0
    JOIN turns t ON t.rank = h.rank AND h.step >= t.turn
    WHERE h.probe = 'batch_std' AND h.spread > 0
      -- the width of an embedding, not of a value
      AND EXISTS (FROM embeddings e WHERE e.rank = h.rank AND e.module_id = h.module_id)
    GROUP BY h.rank, h.module_id, h.tensor_id, h.probe, t.turn
    HAVING count(*) >= $looks
        AND quantile_cont(h.views, 0.1) BETWEEN 2 AND $most_views
        AND min(h.step) < t.turn + $start_steps
        AND max(h.spread) < 2 * arg_min(h.spread, h.n)
       AND arg_max(h.spread, h.n) < $shrunk * arg_min(h.spread, h.n)
       AND regr_r2(ln(l.loss), ln(h.spread)) > $together
         AND regr_slope(ln(l.loss), ln(h.spread)) BETWEEN $slope AND CASE t.turn
             WHEN 0 THEN $slope_square
             ELSE $slope_fourth
             END
)
SELECT *, turn AS begun, turn AS down, true AS whole_
FROM shrinking
WHERE rank NOT IN (SELECT rank FROM collapses)
-- together
WITH entrances AS (
    -- the first layer of each model: where its outputs are the very same for all samples, so were its inputs
    SELECT rank, model, module_id
    FROM modules m
    WHERE EXISTS (FROM parameters p WHERE p.rank = m.rank AND p.module_id = m.module_id)
    QUALIFY row_number() OVER (PARTITION BY rank, model ORDER BY call_order) = 1
    UNION
    -- and the first of them that collapsed, if it multiplies by a matrix: what enters it was put together by
    -- code, such as the empty slots of an expert that no token was sent to
    SELECT m.rank, m.model, m.module_id
    FROM found c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
    QUALIFY row_number() OVER (PARTITION BY m.rank, m.model ORDER BY m.call_order) = 1
        AND c.value = 0 AND regexp_matches(m.class_name, 'Linear|Conv')
)
-- the earliest step of all, at the end of the model that ran first: an encoder rather than what follows it
SELECT c.rank, min(c.begun) OVER (PARTITION BY c.rank) AS step, c.down, m.module, m.class_name,
    round(c.before, 4) AS before, round(c.value, 4) AS value,
    in_percent(c.share) AS percent, c.probe AS how_,
    CASE WHEN c.whole_ THEN 'nothing_else_learnt' WHEN c.probe = 'batch_std' THEN 'their_size'
        ELSE 'any_direction' END AS against_,
    CASE m.module WHEN '' THEN 'root' ELSE 'named' END AS place_, m.call_order,
    -- that outputs have run together is certain, and what did it is not: labels that are noise, a learning
    -- rate, a sign. It is the cause where the loss falls by nothing but that, or with it step by step
    CASE
        WHEN c.whole_ OR c.drawn_ THEN 'error'
        ELSE 'warning'
        END AS severity
FROM found c JOIN modules m ON m.rank = c.rank AND m.module_id = c.module_id
WHERE NOT (c.value = 0 AND 0 = (
    -- the least of them: one such layer explains those after it
    SELECT coalesce(min(widest), 1) FROM (SELECT max(h.spread) AS widest
    FROM entrances e
    JOIN history h ON h.rank = e.rank
        AND h.module_id = e.module_id
        AND h.probe = 'batch_std'
        AND h.step >= c.down
    WHERE e.rank = m.rank AND e.model = m.model GROUP BY e.module_id)))
  -- what points one way inside a model may still be told apart at its end
  AND (c.probe = 'batch_std'
      OR NOT EXISTS (FROM modules l
          WHERE l.rank = m.rank
            AND l.model = m.model
            AND l.class_name = 'Linear'
            AND l.call_order > m.call_order
    AND NOT EXISTS (FROM found d WHERE d.rank = l.rank AND d.module_id = l.module_id)
    -- or may not: its outputs pointed one way before, and run together with the others
    AND coalesce((SELECT median(h.spread) FILTER (h.step >= c.down) > $drawn_turn * max(h.spread)
        FILTER (h.step BETWEEN c.begun - $ahead AND c.begun)
        FROM history h
        WHERE h.rank = l.rank AND h.module_id = l.module_id AND h.probe = 'direction_std'), true)))
ORDER BY step, c.rank, min(m.call_order) OVER (PARTITION BY c.rank, m.model), m.call_order DESC
