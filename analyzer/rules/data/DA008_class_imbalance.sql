/*
code = "DA008"
name = "class-imbalance"
severity = "warning"
phase = "data"
signal = "label_counts"
message = "Class {top} holds {percent} % of the {total} targets {of_}{ratio_}: a model that always says {top} looks good."
fix = "{remedy_}"
seeks = [
    """batches: role = 'target' AND phase <> 'eval' AND (label_counts IS NOT NULL \
        OR loss_op LIKE 'BinaryCrossEntropy%')""",
]
[say.of_]
run = "of the run"
since = "from step {step} on"
[say.ratio_]
rarest = ", {ratio:.0f} times as many as class {rare}"
before = ", where none held more than {before} % before"
few_occur = ", and only {seen} of {classes} classes occur at all"
[say.remedy_]
weigh = "Weight the loss, resample, or judge by a metric per class."
look_at_targets = "Look at how targets are made: print a few with torch.bincount. Numbers that are normalised already and binned once more, or cut to integers, all fall into one class."
[params.alike]
value = 0.98
doc = "Share of one class from which targets are all but one number."
source = "convention: of this project, one in fifty is left"
[params.many]
value = 20
unit = "classes"
doc = "Classes that the loss must know."
source = "convention: of this project, a model with a head that large is meant to tell many apart"
[params.seen]
value = 0.1
doc = "Share of them that occurs."
source = "convention: of this project, nine in ten were never wanted"
[params.ratio]
value = 10
unit = "times"
doc = "Most frequent over least frequent class."
source = "convention: of this project, the rare class is an order of magnitude rarer"
[params.share]
value = 0.9
doc = "Share of one class."
source = "convention: of this project, whoever always says this class is right in nine of ten"
[params.half]
value = 0.5
doc = "Share of the most frequent class without which a ratio says little: of many classes some are rare."
source = "arithmetic: the most frequent class is the majority"
[params.least]
value = 200
unit = "targets"
doc = "Targets seen."
source = "arithmetic: a share of one half has a standard error of 3.5 % then"
[params.steps]
value = 30
unit = "steps"
doc = "Steps before and after that it takes to say that the classes were mixed and no longer are."
source = "convention: of this project, as many batches on both sides as a median needs to be steady"
[params.mixed]
value = 0.7
doc = "Share of one class up to which classes were mixed before."
source = "convention: of this project, clearly below the share of nine tenths, by more than the scatter of batches"
[params.rounding]
value = 1e-6
unit = "relative"
doc = "Share by which a sum may differ from that of the squares."
source = "arithmetic: some sixteen roundings of float32, 2^-24"
[params.classes]
value = 100
unit = "classes"
doc = "Classes up to which a ratio of frequencies says something."
source = "convention: of this project, of more some are rare"
[params.for_each]
value = 20
unit = "targets"
doc = "Targets for each class."
source = "convention: of this project, fewer make ratios by chance"
[params.mixed_batch]
value = 0.8
doc = "Share of one class up to which a batch is mixed."
source = "convention: of this project, four of five"
[needs]
tables = ["batches"]
[doc]
what = "A loss of many classes is given one alone, and hardly any other occurs. Or one class has more than nine tenths of the targets. Or it has half of them and ten times as many as the rarest class that occurs. Or it has that share from some step to the end, after batches in which classes were mixed."
why = "The loss is dominated by one class; accuracy says little."
not_this = "Tokens of a text, many classes of which some are rare, few targets, a loss that weighs its classes. It is advice: data may be like that."
source = "Thresholds of the catalogue."
*/
-- shared
WITH labelled AS (
    SELECT rank, step, label_counts FROM batches t
    WHERE role = 'target' AND phase <> 'eval' AND label_counts IS NOT NULL AND len(shape) = 1
        -- one target for each sample: tokens that were laid out in one row are more than the samples
        AND NOT EXISTS (SELECT 1
            FROM batches i
            WHERE i.rank = t.rank AND i.step = t.step AND i.microbatch = t.microbatch
            AND i.role = 'input' AND len(i.shape) > 1 AND i.batch_size < t.batch_size)
), totals AS (
    SELECT rank, class, sum(count_) AS count_
    FROM (SELECT rank, unnest(label_counts) AS count_, generate_subscripts(label_counts, 1) - 1 AS class
        FROM labelled)
    GROUP BY rank, class HAVING sum(count_) > 0
    UNION ALL
    -- floating-point targets of a binary loss that are all 0 or 1: then they are their own squares
    SELECT rank, class, sum(count_) AS count_ FROM (
        SELECT b.rank, unnest([0, 1]) AS class, unnest([s.numel - s.sum, s.sum]) AS count_, s.numel, s.sum,
            s.sum_sq, s.min
        FROM batches b
        JOIN tensor_stats s ON s.rank = b.rank
            AND s.step = b.step
            AND s.seq = b.seq
            AND s.tensor_id = b.tensor_id
        WHERE b.role = 'target'
          AND b.phase <> 'eval'
          AND b.label_counts IS NULL
          AND b.loss_op LIKE 'BinaryCrossEntropy%'
          AND list_product(b.shape::DOUBLE[]) = b.shape[1])
    GROUP BY rank, class
    HAVING sum(count_) > 0 AND max(abs(sum - sum_sq)) < $rounding * max(numel) AND min(min) >= 0
), judged AS (
    SELECT rank, arg_max(class, count_) AS top, arg_min(class, count_) AS rare,
        max(count_) / min(count_) AS ratio, max(count_) / sum(count_) AS value, sum(count_)::BIGINT AS total,
        count(*) AS classes
    FROM totals GROUP BY rank
), weighted AS (
    SELECT DISTINCT rank FROM batches WHERE role = 'target' AND phase <> 'eval' AND weighted
)
-- detector: one_class_outweighs
SELECT rank, 0 AS step, top, value, percent_of(value) AS percent, total, ratio, rare,
    'run' AS of_, 'rarest' AS ratio_, 'weigh' AS remedy_
FROM judged
WHERE rank NOT IN (FROM weighted)
  AND classes BETWEEN 2 AND $classes
  AND total >= $least
  AND (value > $share OR (ratio > $ratio AND value > $half AND total >= $for_each * classes))
-- detector: all_but_one_number
-- also where a sample has many targets, as tokens or pixels
SELECT rank, 0 AS step, arg_max(class, count_) AS top, max(count_) / sum(count_) AS value,
    percent_of(value) AS percent, sum(count_)::BIGINT AS total, count(*) FILTER (count_ > 0) AS seen,
    max(known) AS classes, 'run' AS of_, 'few_occur' AS ratio_, 'look_at_targets' AS remedy_
FROM (
    SELECT rank, class, max(classes) AS known, sum(count_) AS count_ FROM (
        SELECT rank, classes, unnest(label_counts) AS count_,
            generate_subscripts(label_counts, 1) - 1 AS class
        FROM batches WHERE role = 'target' AND phase <> 'eval' AND label_counts IS NOT NULL)
    GROUP BY rank, class)
WHERE rank NOT IN (FROM weighted)
GROUP BY rank
HAVING value >= $alike AND max(known) >= $many AND seen <= $seen * max(known)
  AND total >= $for_each * max(known)
-- detector: no_longer_mixed
WITH turned AS (
    -- the last batch in which no class outweighed the others
    SELECT rank, max(step) FILTER (list_max(label_counts) <= $mixed_batch * list_sum(label_counts)) AS step
    FROM labelled
    GROUP BY rank
), parts AS (
    SELECT rank, later, class, sum(count_) AS count_ FROM (
        SELECT l.rank, l.step > t.step AS later, unnest(l.label_counts) AS count_,
            generate_subscripts(l.label_counts, 1) - 1 AS class
        FROM labelled l
        JOIN turned t ON t.rank = l.rank)
    GROUP BY rank, later, class
), shares AS (
    SELECT rank, later, arg_max(class, count_) AS top, max(count_) / sum(count_) AS value,
        sum(count_)::BIGINT AS total
    FROM parts
    GROUP BY rank, later
), lengths AS (
    SELECT l.rank, min(l.step) FILTER (l.step > t.step) AS step,
        count(DISTINCT l.step) FILTER (l.step <= t.step) AS before,
        count(DISTINCT l.step) FILTER (l.step > t.step) AS after_
    FROM labelled l JOIN turned t ON t.rank = l.rank GROUP BY l.rank
)
SELECT s.rank, l.step, s.top, s.value, percent_of(s.value) AS percent, s.total,
    percent_of(b.value) AS before, 'since' AS of_, 'before' AS ratio_, 'weigh' AS remedy_
FROM shares s JOIN shares b ON b.rank = s.rank AND s.later AND NOT b.later JOIN lengths l ON l.rank = s.rank
WHERE s.rank NOT IN (FROM weighted)
  AND s.value > $share
  AND s.total >= $least
  AND b.value <= $mixed
  AND l.before >= $steps
  AND l.after_ >= $steps
  AND s.rank NOT IN (SELECT rank FROM judged WHERE value > $share)
QUALIFY row_number() OVER (PARTITION BY s.rank ORDER BY l.step) = 1
-- together
SELECT * FROM found QUALIFY row_number() OVER (PARTITION BY rank ORDER BY step, remedy_) = 1
ORDER BY step, rank
