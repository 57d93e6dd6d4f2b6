/*
code = "DA032"
name = "augmented-validation"
severity = "error"
phase = "eval"
signal = "evaluated_fingerprints"
message = "The evaluation gets other inputs in each pass. Of {compared} samples with the same index, {changed} had other values of field {field} in its second pass{source_}. Its metric measures chance as well."
fix = "{remedy_}"
seeks = ["batches: phase = 'eval' AND len(sample_indices) = len(evaluated_fingerprints) AND epoch <> 0"]
[say.source_]
shared = ". It draws from the data set that the training draws from, with that one's random transform"
own = ""
[say.remedy_]
shared = "Give the evaluation a data set of its own, made without random transforms, and take the same split of it: Subset(plain_set, val_indices). random_split and Subset leave the transform of the whole as it is."
own = "Evaluate without random crops, flips, noise or masks, or draw them from a generator that is seeded anew for each pass. Where chance is meant here, ignore this advice."
[params.share]
value = 0.1
doc = "Share of the samples that have to differ."
source = "convention: of this project, the rarest augmentations in use act on a tenth of the samples"
[params.least]
value = 16
unit = "samples"
doc = "Samples of both passes that can be judged."
source = "convention: of this project"
[needs]
tables = ["batches"]
columns = ["batches.evaluated_fingerprints"]
[doc]
what = "The first two passes of an evaluation give other values for the same indices of one data set. That data set is also the one behind the training's loader. As a warning: it is a data set of its own."
why = "A split of a data set keeps its transform. Validation images that are cropped and flipped at random make the metric noisy and mostly too low, and the best checkpoint is chosen by chance."
not_this = "An evaluation of the training data themselves. Fields of integers. Inputs beside another field of floats of the same shape, as of a denoiser or of two views. Samplers that do not tell their indices."
source = "Equality of hashes of the same sample. torchvision's and PyTorch's tutorials use a plain transform for validation."
*/
WITH passes AS (
    SELECT rank, loader_id, loader_batches, field, dataset_id, step, seq, epoch, shape[2:] AS row_shape,
        sample_indices, evaluated_fingerprints AS hashes
    FROM batches
    WHERE phase = 'eval' AND len(sample_indices) = len(evaluated_fingerprints)
      AND (dtype LIKE 'float%' OR dtype LIKE 'bfloat%')
), samples AS (
    SELECT *, unnest(sample_indices) AS sample, unnest(hashes) AS hash FROM passes
), pairs AS (
    SELECT rank, loader_id, loader_batches, field, dataset_id, row_shape, sample,
        max(step) AS step, arg_max(seq, step) AS seq, arg_min(hash, epoch) <> arg_max(hash, epoch) AS changed
    FROM samples
    GROUP BY ALL
    HAVING count(DISTINCT epoch) > 1
), fields AS (
    SELECT rank, loader_id, loader_batches, field, dataset_id, row_shape, min(step) AS step,
        arg_min(seq, step) AS seq, count(*) AS compared, count(*) FILTER (changed) AS changed
    FROM pairs
    GROUP BY ALL
), trained AS (
    SELECT DISTINCT rank, loader_id, loader_batches, dataset_id FROM batches WHERE phase = 'data'
)
SELECT f.rank, f.step, f.seq, f.field, f.compared, f.changed, f.changed AS value,
    coalesce(bool_or(t.rank IS NOT NULL), false) AS with_training,
    if(with_training, 'shared', 'own') AS source_, source_ AS remedy_,
    if(with_training, 'error', 'warning') AS severity
FROM fields f
LEFT JOIN trained t ON t.rank = f.rank AND t.dataset_id = f.dataset_id
WHERE f.compared >= $least AND f.changed >= $share * f.compared
  -- another field like it: a clean image beside the noisy one, or two views
  AND NOT EXISTS (FROM fields o WHERE o.rank = f.rank AND o.loader_id = f.loader_id
      AND o.field <> f.field AND o.row_shape = f.row_shape)
  -- an evaluation of what is trained on sees the same transform on purpose
  AND NOT EXISTS (FROM trained s WHERE s.rank = f.rank AND s.loader_id = f.loader_id
      AND s.loader_batches IS NOT DISTINCT FROM f.loader_batches)
GROUP BY ALL
ORDER BY f.step, f.rank, f.field
