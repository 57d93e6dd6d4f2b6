/*
code = "MO030"
name = "excessive-dropout"
severity = "warning"
phase = "forward"
signal = "zero_count"
message = "{place_} ({class_name}) keeps {value} of what it is given in training, in all {looks} looks. The argument p of torch is the share that is dropped, not the share that is kept.{learnt_}"
fix = "Use a p of 0.1 to 0.5; what other frameworks call keep_prob is 1 - p."
seeks = ["modules: regexp_matches(class_name, '^(Alpha|Feature)?Dropout[123]?d?$')"]
explains = ["shuffled-labels", "nothing-learnt"]
[say.place_]
root = "the root"
named = "{module}"
[say.learnt_]
nothing = " The loss began at {first_loss:.4g} and is {late_loss:.4g} in the second half."
[params.kept]
value = 0.25
doc = "Share of the nonzero inputs that comes out of a dropout: Srivastava et al. (2014) keep 0.5 to 0.8."
source = "convention: Srivastava et al. (2014), Dropout, keep 0.5 to 0.8"
[params.looks]
value = 5
unit = "steps"
doc = "Steps in which it was seen, all of them."
source = "convention: of this project, fewer do not show a share"
[params.elements]
value = 64
unit = "elements"
doc = "Nonzero inputs of a look from which a share is told."
source = "arithmetic: a share of one half has a standard error of 6 % then"
[params.nothing]
value = 0.85
doc = "Loss in the second half of the run over the first loss that counts as having learnt nothing."
source = "convention: of this project, a model that learns loses more than a seventh of its first loss by then"
[params.length]
value = 100
unit = "steps"
doc = "Length of a run from which its losses tell how the training as a whole went."
source = "convention: of this project, a network needs tens of steps to begin, and twice as many where its inputs are in its way"
[needs]
tables = ["tensor_stats", "modules"]
kinds = ["activation"]
steps = 5
[doc]
what = "A dropout in train mode keeps a quarter of its nonzero inputs or less, in every look. This is an error where nothing is learnt."
why = "What is left of the signal is noise: the loss stays where it began."
not_this = "Sparse inputs, of which the zeros are not the dropout's; dropout by a function, whose share no module shows."
source = "Counting zeros before and after; the recommended shares of Srivastava et al. (2014)."
*/
WITH outputs AS (
    SELECT s.rank, s.step, t.module_id, t.tensor_name, sum(s.numel) AS numel,
        sum(s.numel - s.zero_count) AS nonzero
    FROM tensor_stats s
    JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id AND t.kind = 'activation'
    WHERE s.phase = 'forward' AND s.nan_count + s.inf_count = 0
    GROUP BY ALL
), drops AS (
    SELECT m.rank, m.module_id, m.module, m.class_name, m.model, m.call_order
    FROM modules m
    WHERE regexp_matches(m.class_name, '^(Alpha|Feature)?Dropout[123]?d?$')
), given AS (
    -- what entered it, or what the module that ran right before it put out
    SELECT d.rank, d.module_id, o.step, o.numel, o.nonzero
    FROM drops d
    JOIN outputs o ON o.rank = d.rank AND o.module_id = d.module_id AND o.tensor_name LIKE '%:input0'
    UNION ALL
    SELECT d.rank, d.module_id, o.step, o.numel, o.nonzero
    FROM drops d
    JOIN LATERAL (SELECT arg_max(b.module_id, b.call_order) AS module_id
        FROM modules b
        WHERE b.rank = d.rank AND b.model = d.model AND b.call_order < d.call_order
          AND NOT EXISTS (FROM modules c
              WHERE c.rank = b.rank AND c.parent_id = b.module_id AND c.call_order IS NOT NULL)
    ) p ON true
    JOIN outputs o ON o.rank = d.rank AND o.module_id = p.module_id AND o.tensor_name LIKE '%:output0'
    WHERE NOT EXISTS (FROM outputs i
        WHERE i.rank = d.rank AND i.module_id = d.module_id AND i.tensor_name LIKE '%:input0')
), kept AS (
    SELECT d.rank, d.module_id, d.module, d.class_name, min(o.step) AS step, count(*) AS looks,
        median(o.nonzero / g.nonzero) AS value, max(o.nonzero / g.nonzero) AS most
    FROM drops d
    JOIN outputs o ON o.rank = d.rank AND o.module_id = d.module_id AND o.tensor_name LIKE '%:output0'
    JOIN given g ON g.rank = d.rank AND g.module_id = d.module_id AND g.step = o.step AND g.numel = o.numel
    WHERE g.nonzero >= $elements
      AND EXISTS (FROM module_modes q
          WHERE q.rank = d.rank AND q.module_id = d.module_id AND q.training AND q.grad)
    GROUP BY d.rank, d.module_id, d.module, d.class_name
)
SELECT k.rank, k.step, k.module, k.class_name, round(k.value, 3) AS value, k.looks,
    CASE k.module WHEN '' THEN 'root' ELSE 'named' END AS place_, w.first_loss, w.late_loss,
    CASE WHEN w.rank IS NOT NULL THEN 'nothing' END AS learnt_,
    CASE WHEN w.rank IS NULL THEN 'warning' ELSE 'error' END AS severity
FROM kept k
LEFT JOIN loss_levels w ON w.rank = k.rank
    AND w.steps >= $length
    AND w.first_loss > 0
    AND w.late_loss > $nothing * w.first_loss
WHERE k.looks >= $looks AND k.most <= $kept
ORDER BY k.step, k.rank, k.module_id
