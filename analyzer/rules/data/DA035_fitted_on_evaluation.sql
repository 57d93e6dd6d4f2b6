/*
code = "DA035"
name = "fitted-on-evaluation"
severity = "warning"
phase = "data"
signal = "source"
message = "{text} ({place}) takes its statistics of {given}, and {trained} those of the training data. So evaluation and training are not prepared alike."
fix = "Fit {fitted} on the training data once, keep what it has learnt, and apply that to {given}."
seeks = ["events: event = 'fitted-anew'"]
[needs]
tables = ["events"]
[doc]
what = "The script prepares the data of an evaluation by their own statistics. It calls fit or fit_transform of a scaler, an encoder or the like on them, beside a call on the training data. Or it gives both to a function of its own that subtracts the mean or the minimum of all samples, and divides by their spread."
why = "The same sample becomes another input in the evaluation than in training. A shift between the two is taken away that the model would meet later, so the evaluation is of other data."
not_this = "transform() alone. A scaler of targets that is fitted once. Statistics of each sample by itself. Names that tell of neither training nor evaluation."
source = "scikit-learn's documentation: common pitfalls, inconsistent preprocessing and data leakage."
*/
SELECT rank, min(step) AS step, count(*) AS value, arg_min(detail, time_ns) AS first,
    first ->> '$.place' AS place, first ->> '$.text' AS text, first ->> '$.fitted' AS fitted,
    first ->> '$.given' AS given, first ->> '$.trained' AS trained
FROM events WHERE event = 'fitted-anew'
GROUP BY rank
ORDER BY step, rank
