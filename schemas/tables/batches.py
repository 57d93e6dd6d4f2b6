"""What each batch held: the table of inputs and targets."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, F64_LIST, I32, I64, LIST, MICROBATCH, PHASE, RANK, SEQ, STEP, STR

BATCHES = Table(
    "batches",
    "One row per field of every batch. A field came from the loader, entered the model, or was the target of the loss.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        PHASE,
        Column("field", STR, "Position or key in the batch, argument of the model, or `target` of the loss."),
        Column(
            "role", STR, "input (entered a model), target (of the loss), or field (came from the loader, use unknown)."
        ),
        Column("tensor_id", I32, "The tensor; its moments are in tensor_stats with the same step and seq."),
        Column("shape", LIST, "Shape of this batch."),
        Column("dtype", STR, "Such as float32."),
        Column("batch_size", I64, "First dimension; null for a scalar.", "samples"),
        Column("fingerprint", I64, "64-bit hash of shape, dtype and up to 64 KiB of evenly spaced content."),
        Column("loader_id", I32, "Loader it came from, in order of appearance; null if from none."),
        Column("epoch", I32, "Iterations begun over that loader before this one."),
        Column("batch_index", I64, "Position in that iteration, from 0."),
        Column(
            "loader_batches",
            I64,
            "Batches of a whole iteration, as the loader says; null where its data has no length.",
            "batches",
        ),
        Column(
            "left_passes",
            I32,
            "Passes over the loader right before this one that the script left before their end, all after the same number "
            "of batches.",
            "passes",
        ),
        Column("left_after", I64, "That number.", "batches"),
        Column("workers", I32, "num_workers of the loader.", "processes"),
        Column("wait_ns", I64, "Time the script waited for this batch.", "ns"),
        Column(
            "dataset_id", I32, "The data set behind a Subset, in order of appearance; the same for two splits of one."
        ),
        Column("dataset_length", I64, "Samples of the loader's data set, as it says.", "samples"),
        Column("sampler", STR, "Class of the loader's sampler, one of torch's own; null for others."),
        Column("sampler_reach", I64, "Samples that this sampler can draw.", "samples"),
        Column("sample_indices", LIST, "Indices of its samples in the data set, where the sampler says."),
        Column(
            "sample_fingerprints",
            LIST,
            "One hash for each sample, taken while a split is new; equal samples give equal hashes.",
        ),
        Column(
            "evaluated_fingerprints",
            LIST,
            "The same of the samples of an evaluation, in its first two passes over a loader whose sampler tells them.",
        ),
        Column(
            "distinct_rows",
            I64,
            "Different rows of a field of floats with four or more elements a row, while its samples get their hash.",
            "samples",
        ),
        Column("most_repeated", I64, "How often the most frequent of them occurs.", "samples"),
        Column(
            "distinct_values",
            I64,
            "Different elements in these rows; null where they are not few for the size of the batch.",
            "elements",
        ),
        Column(
            "frequent_values",
            LIST,
            "Up to four values that most elements of rows of integers have, but for padding; looked at with the samples' hashes.",
        ),
        Column("frequent_shares", F64_LIST, "Shares of these elements."),
        Column("loss_op", STR, "Autograd name of the loss for a target, such as NllLossBackward0."),
        Column(
            "weighted",
            BOOL,
            "Whether the loss was given weights of classes or elements; null where that was not looked at.",
        ),
        Column(
            "class_weights",
            F64_LIST,
            "Weights that the loss was given for classes 0, 1, …: weight, or 1 and pos_weight; null where none was looked at.",
        ),
        Column("classes", I64, "Number of classes the loss saw, for an integer target.", "classes"),
        Column("ignore_index", I64, "What the loss ignores, for an integer target.", "classes"),
        Column("ignored_count", I64, "Targets equal to ignore_index.", "elements"),
        Column(
            "out_of_range_count",
            I64,
            "Targets below 0 or not below the number of classes, and not ignored.",
            "elements",
        ),
        Column("label_counts", LIST, "Elements of each class 0, 1, … of an integer field with few classes."),
        Column("entropy", F64, "Entropy of that histogram.", "nats"),
        Column("valid_fraction", F64, "Share of ones in a field that is a mask (only zeros and ones)."),
        Column("min_row_valid", I64, "Fewest ones in a row of such a mask.", "elements"),
        Column(
            "padding_fraction",
            F64,
            "Share of the targets of a loss whose tokens are padding: the padding_idx of their embedding, or one value under "
            "the zeros of a mask that came with them; null where that was not looked at.",
        ),
        Column("padding_counted", F64, "Share of those that count in the loss: they are not its ignore_index."),
        Column(
            "padding_token",
            I64,
            "The token that a mask of the batch hides, for a loss of the next token. Null where it hides several "
            "values. Null too where tokens of another value are ignored behind the first target of a sequence.",
        ),
        Column(
            "padded_sequences",
            I64,
            "Sequences that the mask hides a part of and that have targets; null where padding_token is.",
            "sequences",
        ),
        Column(
            "ends_ignored",
            I64,
            "Of these, the ones whose last token that the mask shows has padding's value and is no counted target.",
            "sequences",
        ),
        Column("padding_targets", I64, "Counted targets of padding's value.", "elements"),
        Column(
            "ignored_between",
            I64,
            "Targets that the loss ignores by a number that is a token, between counted ones of their row; null where the targets"
            " are not the tokens of an embedding one place later.",
            "elements",
        ),
        Column(
            "loss_input",
            I32,
            "seq of the moments of what the loss compares with a target; null where it was not measured.",
        ),
        Column("reduction", STR, "How the loss joined its elements: mean, sum, none; for a target."),
        Column("loss_gradient", F64, "Gradient that backward brought to the loss operator: its weight in the total."),
    ),
    ("rank", "step", "seq"),
)
