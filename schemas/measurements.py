"""What was measured of tensors, batches and operators."""

from .columns import Column, Table
from .shared_columns import BOOL, F64, I32, I64, LIST, MICROBATCH, PHASE, RANK, SEQ, STEP, STR

TENSOR_STATS = Table(
    "tensor_stats",
    "Mergeable moments of one tensor at one moment; the finite elements only, so that ranks and windows can be combined.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        PHASE,
        Column("tensor_id", I32, "Which tensor."),
        Column("numel", I64, "Elements measured; for kind update a sample of the tensor.", "elements"),
        Column("nan_count", I64, "NaN elements.", "elements"),
        Column("inf_count", I64, "Infinite elements.", "elements"),
        Column(
            "zero_count",
            I64,
            "Elements that are exactly zero; not always counted without the C library unless the minimum or maximum is zero.",
            "elements",
        ),
        Column("min", F64, "Smallest finite element."),
        Column("max", F64, "Largest finite element."),
        Column("sum", F64, "Sum over the finite elements."),
        Column("sum_sq", F64, "Sum of squares over the finite elements."),
        Column("missing", BOOL, "True where the tensor did not exist at this point: a gradient that is None."),
        Column(
            "requires_grad", BOOL, "Whether autograd tracked the tensor at this moment; null where it does not matter."
        ),
    ),
    ("rank", "step", "seq"),
)


BATCHES = Table(
    "batches",
    "One row per field of every batch: what came from the loader, entered the model, or was the target of the loss.",
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
        Column("workers", I32, "num_workers of the loader.", "processes"),
        Column("wait_ns", I64, "Time the script waited for this batch.", "ns"),
        Column("sample_indices", LIST, "Indices of its samples in the data set, where the sampler says."),
        Column(
            "sample_fingerprints",
            LIST,
            "One hash for each sample, taken while a split is new; equal samples give equal hashes.",
        ),
        Column("loss_op", STR, "Autograd name of the loss for a target, such as NllLossBackward0."),
        Column(
            "weighted",
            BOOL,
            "Whether the loss was given weights of classes or elements; null where that was not looked at.",
        ),
        Column("classes", I64, "Number of classes the loss saw, for an integer target.", "classes"),
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
        Column("reduction", STR, "How the loss joined its elements: mean, sum, none; for a target."),
        Column("loss_gradient", F64, "Gradient that backward brought to the loss operator: its weight in the total."),
    ),
    ("rank", "step", "seq"),
)


OPERATORS = Table(
    "operators",
    "What an autograd node had saved, looked at where it can explain a non-finite value; position by graph order.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        PHASE,
        Column("op", STR, "Autograd name of the operator without suffix, such as Sqrt, Log, Softmax, MaskedFill."),
        Column("graph_seq", I64, "Order in which the forward pass ran the operators of this step."),
        Column("module_id", I32, "Innermost module in whose forward the operator ran; null outside all modules."),
        Column("saved", STR, "Which saved tensor was looked at: self, other, result, mask …"),
        Column(
            "trigger",
            STR,
            "Why: `nonfinite` (a tensor had just come out non-finite), `risk` (derivative undefined at this value) or `collapse` "
            "(a divisor below a thousandth of the smallest that this division ever had).",
        ),
        Column("dtype", STR, "dtype of the saved tensor."),
        Column("shape", LIST, "Its shape."),
        Column("numel", I64, "Its elements.", "elements"),
        Column("nan_count", I64, "NaN elements.", "elements"),
        Column("inf_count", I64, "Infinite elements.", "elements"),
        Column("zero_count", I64, "Elements exactly zero.", "elements"),
        Column("min", F64, "Smallest finite element."),
        Column("max", F64, "Largest finite element."),
        Column("least_before", F64, "For a collapse: the smallest divisor of this division in all earlier looks."),
        Column("looks", I64, "For a collapse: how many looks there were.", "looks"),
        Column("rows", I64, "For a mask: rows along the last dimension.", "rows"),
        Column("full_rows", I64, "For a mask: rows that mask everything; for a result: rows wholly NaN.", "rows"),
        Column(
            "masked",
            BOOL,
            "For a risk: whether its result goes through torch.where or masked_fill; null if not looked at.",
        ),
        Column(
            "compiled", STR, "Operator in code that torch.compile made, such as aten.addmm; null outside such code."
        ),
        Column("source", STR, "Line of the script that compiled operator comes from; null outside such code."),
        Column(
            "unsaved",
            STR,
            "For the first lost value in compiled code: operators between it and what was saved before it.",
        ),
    ),
    ("rank", "step", "seq"),
)
