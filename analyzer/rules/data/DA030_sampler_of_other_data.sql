/*
code = "DA030"
name = "sampler-of-other-data"
severity = "error"
phase = "data"
signal = "sampler_reach"
message = "The {sampler} of the training loader can draw {value} of the {length} samples of its data set: {what_}. The others are never trained on."
fix = "{remedy_}"
seeks = ["batches: phase <> 'eval' AND sampler_reach < dataset_length"]
explains = ["overfit", "underfit", "plateau", "loss-off-course", "duplicate-batches"]
[say.what_]
weights = "it was given {value} weights, one for each sample is wanted"
evaluation = "as many as the data set of the evaluation has"
[say.remedy_]
weights = "Give WeightedRandomSampler the weight of each sample: weights = class_weights[targets], with len(weights) == len(dataset)."
evaluation = "Make the sampler over the length of the data set of its own loader: SubsetRandomSampler(range(len(train_set))). Where a part is meant, ignore this advice."
[needs]
tables = ["batches"]
columns = ["batches.sampler_reach", "batches.dataset_length"]
[doc]
what = "A sampler of torch for a training loader that cannot draw a part of the loader's data set. It has fewer weights than there are samples. Or it draws as many samples as the data set of an evaluation has: an advice, for a part may be meant."
why = "WeightedRandomSampler draws indices below the number of its weights: weights of two classes draw the first two samples for ever. A sampler over another set's length leaves out the rest of its own."
not_this = "Splits of one data set by two samplers. Parts of another size than an evaluation's data. Samplers of the user's own."
source = "Equality of integers. torch.utils.data.WeightedRandomSampler: it samples from [0, …, len(weights)-1]."
*/
-- shared: loaders
SELECT rank, loader_id, phase = 'eval' AS evaluated, sampler, sampler_reach AS reach,
    dataset_length AS length, min(step) AS step, arg_min(seq, step) AS seq
FROM batches
WHERE sampler_reach IS NOT NULL AND dataset_length IS NOT NULL
GROUP BY ALL
-- detector: weights_of_classes
SELECT rank, step, seq, sampler, reach AS value, length, 'weights' AS what_, 'weights' AS remedy_,
    'error' AS severity
FROM loaders
WHERE sampler = 'WeightedRandomSampler' AND NOT evaluated AND reach < length
-- detector: length_of_another_set
SELECT t.rank, t.step, t.seq, t.sampler, t.reach AS value, t.length, 'evaluation' AS what_,
    'evaluation' AS remedy_, 'warning' AS severity
FROM loaders t
JOIN loaders e ON e.rank = t.rank AND e.evaluated AND e.length = t.reach AND e.loader_id <> t.loader_id
WHERE NOT t.evaluated AND t.sampler <> 'WeightedRandomSampler' AND t.reach < t.length
-- together
ORDER BY step, rank
