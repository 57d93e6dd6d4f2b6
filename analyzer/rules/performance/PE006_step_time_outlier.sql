/*
code = "PE006"
name = "step-time-outlier"
severity = "warning"
phase = "step"
signal = "step_ns"
message = "{value} steps, first step {step}, take {factor} times the usual {usual_ms} ms or more. It is {phase_} that takes the time: {excess_ms} ms more in a step, {percent} % of the run's time in all."
fix = "Look at what happens only in these steps. It may be a sample that is costly to decode, a lock, a slow disk or network, or an emptied cache. To see them with firstfault sql: SELECT step, step_ns, data_wait_ns, forward_ns, backward_ns, optimizer_ns FROM steps ORDER BY step_ns DESC."
seeks = ["step_series: step_ns - coalesce(recorder_ns, 0) > $least_ns AND step >= $warm OR step_ns <= recorder_ns"]
explains = []
[say.phase_]
data = "waiting for data"
forward = "the forward pass"
backward = "the backward pass"
optimizer = "the optimizer step"
rest = "what runs between the phases"
[params.sigmas]
value = 3
doc = "How far beyond the median, in robust standard deviations."
source = "convention: the rule StepOutlier of SageMaker Debugger: three standard deviations"
[params.factor]
value = 3
unit = "times"
doc = "How far beyond the median at least: a busy machine doubles a step."
source = "convention: of this project, a busy machine doubles a step"
[params.least_ns]
value = 2e7
unit = "ns"
doc = "More than usual below this is scheduling."
source = "convention: of this project, 20 ms: shorter ones are scheduling on a busy machine"
[params.times]
value = 10
unit = "steps"
doc = "Outliers up to this number are not worth a word."
source = "convention: the rule StepOutlier of SageMaker Debugger reports after 10 outliers"
[params.share]
value = 0.1
doc = "Share of the run's time that they take beyond the usual."
source = "convention: of this project, a tenth: less is not worth a change"
[params.alike]
value = 0.6
doc = "Share of the outliers in which the same phase grew, at least. It is more by 0.35 than the phase's usual share of a step."
source = "arithmetic: binomial: of 11 outliers 8 in a phase that takes 30 % come by chance in 0.4 % of runs"
[params.warm]
value = 3
unit = "steps"
doc = "First steps, which start workers and fill caches."
source = "convention: of this project, they take longer in any run"
[params.larger]
value = 1.3
unit = "times"
doc = "Growth of the inputs, or of the microbatches, that explains a longer step."
source = "convention: of this project, a third more work"
[params.most_of_it]
value = 0.8
unit = "of the excess"
doc = "Share that the phase has of what a step takes more."
source = "convention: of this project, the rest is scatter"
[params.few]
value = 0.4
unit = "of the steps"
doc = "Share of the steps that outliers are at most."
source = "convention: of this project, more are no outliers"
[params.chance]
value = 0.35
doc = "How many more of them, than its usual share, fall in one phase."
source = "arithmetic: the binomial test that the source of the rule names"
[params.nearly_all]
value = 0.9
unit = "of the outliers"
doc = "Share in one phase, where all have one length."
source = "convention: of this project, one of ten may be the machine's"
[params.one_length]
value = 0.15
unit = "of the excess"
doc = "Spread of their lengths that is one length."
source = "convention: of this project, a seventh is scatter"
[needs]
tables = ["steps"]
columns = ["steps.step_ns", "steps.forward_ns"]
steps = 30
[doc]
what = "More than ten steps are far above the median. Most of them are in one phase, more often than its usual length explains. Or they are all of one length."
why = "Stalls of a busy machine fall on the phases by chance, in proportion to their length. What the code does falls on one."
not_this = "Larger batches, more backward passes in a step (another accumulation, the closures of L-BFGS), evaluations, checkpoints, compilations. The first batch of an epoch, the recorder's own time, the first steps; a noisy machine."
source = "3 robust standard deviations more than 10 times, as other tools have it. The test against chance is binomial. Of 11 outliers 8 in a phase that usually takes 30 % come by chance in 0.4 % of runs."
*/
-- shared
WITH sizes AS (
    SELECT rank, step, sum(list_product(shape)) AS size
    FROM batches
    WHERE role IN ('input', 'field')
    GROUP BY rank, step
), busy AS (
    SELECT rank, step FROM events WHERE event IN ('compiled', 'recompiled', 'mode-changed')
    UNION SELECT rank, step FROM checkpoints
    UNION SELECT rank, step + 1 FROM checkpoints
    UNION SELECT rank, step FROM steps WHERE eval_forwards > 0
    UNION SELECT rank, step
        FROM steps
        QUALIFY epoch IS DISTINCT
        FROM lag(epoch) OVER (PARTITION BY rank ORDER BY step, time_ns)
), series AS (
    SELECT s.rank, s.step, s.step_ns - coalesce(s.recorder_ns, 0) AS ns, coalesce(s.data_wait_ns, 0) AS data_,
        coalesce(s.forward_ns, 0) AS forward_,
        coalesce(s.backward_ns, 0) AS backward_, coalesce(s.optimizer_ns, 0) AS optimizer_, z.size,
            s.microbatches,
        row_number() OVER (PARTITION BY s.rank ORDER BY s.step) AS n
    FROM step_series s LEFT JOIN sizes z ON z.rank = s.rank AND z.step = s.step
    WHERE s.step_ns > 0
)
-- detector: judged
WITH centred AS (
    SELECT *, ns - data_ - forward_ - backward_ - optimizer_ AS rest_,
        median(ns) OVER w AS usual, sigma_of(mad(ns) OVER w) AS sigma, median(size) OVER w AS usual_size,
            median(microbatches) OVER w AS usual_microbatches, sum(ns) OVER w AS whole,
        median(data_) OVER w AS data_m, median(forward_) OVER w AS forward_m,
            median(backward_) OVER w AS backward_m, median(optimizer_) OVER w AS optimizer_m
    FROM series WHERE n > $warm WINDOW w AS (PARTITION BY rank)
), outliers AS (
    SELECT c.*, ns - usual AS excess, usual - data_m - forward_m - backward_m - optimizer_m AS rest_m,
        CASE greatest(data_ - data_m, forward_ - forward_m, backward_ - backward_m, optimizer_ - optimizer_m,
            rest_ - (usual - data_m - forward_m - backward_m - optimizer_m))
            WHEN data_ - data_m THEN 'data'
                WHEN forward_ - forward_m THEN 'forward'
                WHEN backward_ - backward_m THEN 'backward'
            WHEN optimizer_ - optimizer_m THEN 'optimizer' ELSE 'rest' END AS grown
    FROM centred c
    WHERE ns > usual + $sigmas * sigma
      AND ns > $factor * usual
      AND ns - usual > $least_ns
      AND NOT coalesce(size > $larger * usual_size, false)
      AND NOT coalesce(microbatches > $larger * usual_microbatches, false)
      AND NOT EXISTS (SELECT 1 FROM busy b WHERE b.rank = c.rank AND b.step = c.step)
), named AS (
    SELECT *,
        CASE grown
            WHEN 'data' THEN data_ - data_m
            WHEN 'forward' THEN forward_ - forward_m
            WHEN 'backward' THEN backward_ - backward_m
            WHEN 'optimizer' THEN optimizer_ - optimizer_m ELSE rest_ - rest_m END AS growth,
        CASE grown
            WHEN 'data' THEN data_m
            WHEN 'forward' THEN forward_m
            WHEN 'backward' THEN backward_m
            WHEN 'optimizer' THEN optimizer_m
            ELSE rest_m
            END / usual AS usual_share
    FROM outliers
)
SELECT rank, min(step) AS step, count(*) AS value, mode(grown) AS grown, min(ns / usual) AS factor,
    any_value(usual) AS usual, median(excess) AS excess,
    mad(excess) AS spread, sum(excess) / any_value(whole) AS share,
    count(*) FILTER (grown = (SELECT mode(grown) FROM named o WHERE o.rank = named.rank)
        AND growth >= $most_of_it * excess) AS alike,
    any_value(usual_share) FILTER (grown = (SELECT mode(grown)
        FROM named o
        WHERE o.rank = named.rank)) AS usual_share
FROM named GROUP BY rank
-- together
SELECT rank, step, value, round(factor, 1) AS factor, in_ms(usual) AS usual_ms,
    in_ms(excess) AS excess_ms, percent_of(share) AS percent, grown AS phase_,
    CASE grown WHEN 'rest' THEN 'step' ELSE grown END AS phase
FROM judged
WHERE value > $times
  AND value <= $few * (SELECT count(DISTINCT step) FROM steps s WHERE s.rank = judged.rank)
  AND share > $share
  -- of stalls that fall where they may, usual_share would be in this phase: so many more are chance once in a
  -- hundred runs
  AND alike > $times
    AND (alike >= greatest($alike, usual_share + $chance) * value
        OR (alike >= $nearly_all * value AND spread < $one_length * excess))
ORDER BY step, rank
