"""Single operators of a step that was looked at one by one."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, MICROBATCH, PHASE, RANK, SEQ, STEP, STR

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
        Column(
            "outside",
            BOOL,
            "For a lost value: whether it came into the graph with this operator, as data do; null where that is not known.",
        ),
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
