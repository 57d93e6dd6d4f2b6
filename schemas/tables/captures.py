"""Captured steps, and the operators of those that were run again."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, MICROBATCH, PHASE, RANK, STEP, STR, TIME

_CAPTURE = Column("capture", STR, "Folder below captures/.")


CAPTURED_STEPS = Table(
    "captured_steps",
    "One row for each capture folder: what started it, and whether a second run of the model showed the operator.",
    (
        RANK,
        STEP,
        MICROBATCH,
        TIME,
        _CAPTURE,
        Column("reason", STR, "What set it off: loss, gradient, scaler, exception."),
        Column("bytes", I64, "Size of its files.", "bytes"),
        Column("operators", I32, "Operators that the replay ran; null where there was none.", "operators"),
        Column("reproduced", BOOL, "Whether the replay came out non-finite too; null where there was none."),
        Column(
            "only_compiled",
            BOOL,
            "True where code of torch.compile lost a value that the same call, run once more uncompiled, did not; False where it "
            "did too; null where nothing was lost in compiled code, or random numbers keep the two apart.",
        ),
        Column(
            "note",
            STR,
            "Why there was no replay, or what it showed beside an operator; null if there is nothing to say.",
        ),
        Column("stopped", BOOL, "Whether the run was ended here, as --on-nonfinite stop wants it."),
    ),
    ("rank", "step"),
)


REPLAYS = Table(
    "replays",
    "Operators of the forward or backward pass that was run once more on captured inputs. The rows are those "
    "around the first bad one.",
    (
        RANK,
        STEP,
        MICROBATCH,
        _CAPTURE,
        Column("ordinal", I32, "Order in which the replay ran it."),
        PHASE,
        Column("op", STR, "Name of the operator as torch dispatches it, such as log, div, _softmax."),
        Column("node", STR, "Autograd node whose backward ran it; null in the forward pass."),
        Column("module_id", I32, "Innermost module in whose forward it ran; null outside all modules that are known."),
        Column("source", STR, "The script's own line, file:line in function: the innermost frame outside torch."),
        Column("code", STR, "The expression there, as far as Python knows it; else the line."),
        Column("inputs", STR, "Its tensors in words: name, dtype, shape, range, what is not finite or zero."),
        Column("operand", STR, "The argument that decides whether it is defined: the divisor, else the first tensor."),
        Column("operand_min", F64, "Smallest finite element of that argument."),
        Column("operand_max", F64, "Largest finite element of that argument."),
        Column("operand_numel", I64, "Elements of that argument.", "elements"),
        Column("operand_zero_count", I64, "Elements of that argument that are exactly zero.", "elements"),
        Column("dtype", STR, "dtype of the first output."),
        Column("shape", LIST, "Shape of the first output."),
        Column("numel", I64, "Its elements.", "elements"),
        Column("nan_count", I64, "NaN elements.", "elements"),
        Column("inf_count", I64, "Infinite elements.", "elements"),
        Column("min", F64, "Smallest finite element."),
        Column("max", F64, "Largest finite element."),
        Column("first_bad", BOOL, "True for the operator that made the first value that was not finite and did harm."),
    ),
    ("rank", "step", "capture", "ordinal"),
)
