"""What was measured of tensors, batches and operators."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, MICROBATCH, PHASE, RANK, SEQ, STEP

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
