/*
code = "DA012"
name = "train-eval-input-mismatch"
severity = "error"
phase = "eval"
signal = "mean_std"
message = "{tensor}: in evaluation {evaluated_}, in training {trained_}. {so_}"
fix = "{remedy_}"
seeks = [
    """batches: phase = 'eval' AND role = 'input' AND (contains(dtype, 'float') AND valid_fraction IS NULL \
        OR frequent_shares[1] >= $taken)""",
]
explains = ["overfit", "batchnorm-small-batch"]
[say.evaluated_]
moments = "mean {mean_eval} and standard deviation {value}"
one_value = "{share:.0%} of the numbers are {number}"
[say.trained_]
moments = "mean {mean_train} and {std_train}"
one_value = "at most {most:.1%}"
[say.so_]
moments = "One of the two is normalised differently."
one_value = "One of the two goes through another tokenizer or vocabulary: {number} may be what stands for the unknown."
[say.remedy_]
moments = "Use the same preprocessing for training and evaluation: one of them normalises twice or not at all."
one_value = "Make the tokens of both by one function, with the same cases, normal form and vocabulary. Print the tokens of one evaluation sample."
[params.taken]
value = 0.25
unit = "of the elements"
doc = "Share of one number in an evaluation's tokens."
source = "convention: of this project, no word of a language is as frequent: the commonest English one is a sixteenth of all"
[params.rarer]
value = 5
unit = "times"
doc = "How much rarer the number is in each training batch."
source = "convention: of this project, texts of two kinds differ by less in what they repeat most"
[params.listed]
value = 4
unit = "numbers"
doc = "Frequent numbers that the recorder lists: a shorter list holds all there are."
source = "arithmetic: the recorder's own"
[params.tokens]
value = 256
unit = "elements"
doc = "Tokens of an evaluation whose shares can be told."
source = "arithmetic: a share of a quarter has a standard error below 0.03"
[params.shift]
value = 3.0
unit = "standard deviations"
doc = "Shift of the mean."
source = "convention: the three-sigma rule"
[params.times]
value = 3.0
unit = "times"
doc = "Ratio of the standard deviations."
source = "convention: of this project, another normalisation changes the spread by more; augmentation by less"
[params.both]
value = 1.5
unit = "standard deviations"
doc = "Shift of the mean where the spread is another as well, by the factor below."
source = "convention: of this project, half of each that one alone must reach"
[params.turned]
value = 1.0
unit = "standard deviations"
doc = "Shift of the mean where an earlier evaluation agreed with training: far outside of what its batches vary by."
source = "convention: of this project, one standard deviation of single values: batch means scatter by far less"
[params.changed]
value = 2.0
unit = "times"
doc = "Ratio of the standard deviations where an earlier evaluation agreed with training, or where the mean is shifted too."
source = "convention: of this project, batches of one set differ by less in their spread"
[params.rare]
value = 8
unit = "steps"
doc = "Steps between two evaluations: less is no evaluation but a part of training."
source = "convention: of this project, evaluations are rare; what runs every few steps belongs to the training"
[params.margin]
value = 0.1
unit = "of the range"
doc = "How far a later stretch of an axis may begin before the training's end."
source = "convention: of this project, windows look back a little"
[params.elements]
value = 32
unit = "elements"
doc = "Elements of a batch whose spread can be told."
source = "convention: of this project, fewer scatter too much"
[params.ranges]
value = 3
unit = "times"
doc = "Distance from the range of the training batches, in widths of it."
source = "own history"
[params.batches]
value = 3
unit = "batches"
doc = "Batches of the training beside an evaluation."
source = "convention: of this project, fewer do not show a range"
[params.alike]
value = 1.5
unit = "times"
doc = "Largest spread of the evaluations over the smallest."
source = "convention: of this project, half as much again"
[needs]
tables = ["batches", "tensor_stats"]
columns = ["tensor_stats.sum"]
steps = 3
[doc]
what = "In evaluation the mean or spread of a model's input is far from that of the training batches. The distance is beyond what the training batches vary among themselves. It holds in the whole run, or from some step on where an evaluation before agreed with them. Or one number that training rarely has takes up the tokens of an evaluation."
why = "A model judged on other numbers than it was trained on looks bad for the wrong reason."
not_this = "A later stretch of an axis such as time, which begins where the training's ends and is narrower. Masks, means of integers, padding, inputs that vary as much between training batches, or that a model makes for itself step by step."
source = "Comparison with the training batches' own spread."
*/
-- shared
WITH inputs AS (
    SELECT b.rank, b.step, b.seq, b.phase = 'eval' AS evaluated,
        regexp_replace(t.tensor_name, '^batch:|^input:', '') AS field, t.tensor_name AS tensor, b.role,
        s.sum / s.numel AS mean, sqrt(greatest(s.sum_sq / s.numel - pow(s.sum / s.numel, 2), 0)) AS std,
            len(b.shape) AS dims, b.shape[len(b.shape)] AS width, s.min AS low, s.max AS high
    FROM batches b
    JOIN tensor_stats s ON s.rank = b.rank AND s.step = b.step AND s.seq = b.seq AND s.tensor_id = b.tensor_id
    JOIN tensors t ON t.rank = b.rank AND t.tensor_id = b.tensor_id
    WHERE b.role = 'input'
      AND contains(b.dtype, 'float')
      AND s.numel >= $elements
      AND s.nan_count + s.inf_count = 0
      AND s.sum IS NOT NULL
      AND b.valid_fraction IS NULL
    -- of an evaluation the first: what a model is fed next may be its own output, as in sampling
    QUALIFY NOT evaluated OR b.seq = min(b.seq) OVER (PARTITION BY b.rank, b.step, evaluated, dims, width)
), evaluations AS (
    SELECT rank, dims, width, step, any_value(tensor) AS tensor, median(mean) AS mean, median(std) AS std,
        coalesce(lag(step) OVER (PARTITION BY rank, dims, width ORDER BY step), -1) AS before
            FROM inputs
            WHERE evaluated
            GROUP BY rank, dims, width, step
), beside AS (
    -- each evaluation beside the batches since the one before
    SELECT rank, dims, width, step, before, tensor, mean, std, mean_train, std_train, train_batches,
        (abs(mean - mean_train) > $turned * std_train
            AND (mean > mean_high + $ranges * (mean_high - mean_low)
                OR mean < mean_low - $ranges * (mean_high - mean_low)))
            OR std > $changed * std_high OR std < std_low / $changed AS apart
    FROM (
        SELECT e.*, median(t.mean) AS mean_train, median(t.std) AS std_train, count(*) AS train_batches,
            count(DISTINCT t.tensor) AS tensors,
            min(t.mean) AS mean_low, max(t.mean) AS mean_high, min(t.std) AS std_low, max(t.std) AS std_high
        FROM evaluations e
        JOIN inputs t ON t.rank = e.rank
            AND t.dims = e.dims
            AND t.width = e.width
            AND NOT t.evaluated
            AND t.step > e.before
            AND t.step <= e.step
        GROUP BY ALL)
    WHERE train_batches >= $batches AND std_train > 0 AND tensors <= 2 AND std_high < 2 * std_low
), turned AS (
    -- an evaluation agreed with them, and none does from some step on to the end; what a policy is fed while
    -- it acts is no evaluation
    SELECT rank, dims, width, max(step) FILTER (NOT apart) AS last_good FROM beside GROUP BY rank, dims, width
    HAVING count(*) FILTER (NOT apart) >= 1
        AND count(*) FILTER (apart) >= 2
        AND median(step - before) >= $rare
      -- the same preparation each time: an evaluation of scale after scale is a test
      AND max(std) FILTER (apart) < $alike * min(std) FILTER (apart)
)
-- detector: over_the_run
WITH sides AS (
    SELECT rank, dims, width, evaluated, count(*) AS batches, median(mean) AS mean, median(std) AS std,
        min(std) AS std_low, max(std) AS std_high, min(mean) AS mean_low, max(mean) AS mean_high,
        min(step) AS step, arg_min(tensor, step) AS tensor, count(DISTINCT tensor) AS tensors,
        min(low) AS low, max(high) AS high
    FROM inputs GROUP BY rank, dims, width, evaluated
), whole AS (
    SELECT e.rank, e.step, e.tensor, e.mean AS mean_eval, e.std AS value, t.mean AS mean_train,
        t.std AS std_train, e.batches, t.batches AS train_batches
    FROM sides e
    JOIN sides t ON t.rank = e.rank
        AND t.dims = e.dims
        AND t.width = e.width
        AND e.evaluated
        AND NOT t.evaluated
    WHERE t.batches >= $batches AND t.std > 0 AND t.tensors <= 2
      -- where batches vary, further out than they do among themselves, twice over
      AND (t.std_high < 2 * t.std_low
        OR e.std * $times * pow(t.std_high / t.std_low, 2) < t.std_low
        OR e.std > $times * pow(t.std_high / t.std_low, 2) * t.std_high)
      -- a later, or an earlier, stretch of the same axis, as of time
      AND NOT coalesce(e.std < t.std AND (e.low < t.low OR e.high > t.high)
          AND greatest(e.low - t.high, t.low - e.high)
          BETWEEN -$margin * (t.high - t.low) AND t.high - t.low, false)
      AND ((abs(e.mean - t.mean) > $shift * t.std AND (e.mean > t.mean_high OR e.mean < t.mean_low))
        OR e.std > $times * t.std_high OR e.std < t.std_low / $times
        -- both at once, where each alone could still be another set of data
        OR (abs(e.mean - t.mean) > $both * t.std
            AND (e.mean > t.mean_high + $ranges * (t.mean_high - t.mean_low)
                OR e.mean < t.mean_low - $ranges * (t.mean_high - t.mean_low))
            AND (e.std > $changed * t.std_high OR e.std < t.std_low / $changed)))
)
SELECT *, 'moments' AS evaluated_, 'moments' AS trained_, 'moments' AS so_, 'moments' AS remedy_
FROM whole WHERE rank NOT IN (SELECT rank FROM turned)
-- detector: from_some_step_on
SELECT b.rank,
    -- where it is the training batches that changed, with the first of them
    coalesce((SELECT min(t.step)
        FROM inputs t
        WHERE t.rank = b.rank
          AND t.dims = b.dims
          AND t.width = b.width
          AND NOT t.evaluated
          AND t.step >= u.last_good
          AND t.step <= b.step
        AND (abs(b.mean - t.mean) > $turned * t.std OR b.std > $changed * t.std OR b.std < t.std / $changed)
        AND NOT EXISTS (FROM inputs o
            WHERE o.rank = b.rank
              AND o.dims = b.dims
              AND o.width = b.width
              AND NOT o.evaluated
              AND o.step < u.last_good
            AND (abs(b.mean - o.mean) > $turned * o.std
                OR b.std > $changed * o.std
                OR b.std < o.std / $changed))),
                b.step) AS step,
    b.tensor, b.mean AS mean_eval, b.std AS value, b.mean_train, b.std_train, 1 AS batches, b.train_batches,
    'moments' AS evaluated_, 'moments' AS trained_, 'moments' AS so_, 'moments' AS remedy_
FROM turned u
JOIN beside b ON b.rank = u.rank AND b.dims = u.dims AND b.width = u.width AND b.step > u.last_good
WHERE NOT EXISTS (FROM beside g
    WHERE g.rank = b.rank AND g.dims = b.dims AND g.width = b.width AND g.step > u.last_good AND NOT g.apart)
QUALIFY row_number() OVER (PARTITION BY b.rank, b.dims, b.width ORDER BY b.step) = 1
-- detector: one_number_takes_over
WITH tokens AS (
    SELECT b.rank, b.step, b.seq, b.phase = 'eval' AS evaluated, t.tensor_name AS tensor,
        b.shape[1] * b.shape[2] AS elements, b.frequent_values AS numbers, b.frequent_shares AS shares
    FROM batches b JOIN tensors t ON t.rank = b.rank AND t.tensor_id = b.tensor_id
    WHERE b.role = 'input' AND len(b.frequent_values) > 0
), taken AS (
    SELECT rank, numbers[1] AS number, min(step) AS step, arg_min(seq, step) AS seq,
        arg_min(tensor, step) AS tensor, min(shares[1]) AS share, sum(elements) AS elements
    FROM tokens WHERE evaluated GROUP BY rank, numbers[1]
)
SELECT e.rank, e.step, e.seq, e.tensor, e.number, e.share, max(t.bound) AS most, e.share AS value,
    'one_value' AS evaluated_, 'one_value' AS trained_, 'one_value' AS so_, 'one_value' AS remedy_
FROM taken e
JOIN (
    -- what is not among the most frequent is at most as frequent as the last of them
    SELECT o.rank, o.evaluated, n.number,
        coalesce(o.shares[list_position(o.numbers, n.number)],
            if(len(o.shares) < $listed, 0.0, o.shares[$listed])) AS bound
    FROM tokens o JOIN taken n ON n.rank = o.rank
) t ON t.rank = e.rank AND t.number = e.number AND NOT t.evaluated
-- one number in all of it
WHERE e.elements >= $tokens AND e.share >= $taken
  AND NOT EXISTS (FROM taken o WHERE o.rank = e.rank AND o.number <> e.number)
GROUP BY ALL
HAVING count(*) >= $batches AND max(t.bound) * $rarer <= e.share
-- together
ORDER BY step, rank
