"""Where the time of a step goes beside its phases: reads of tensors by the host."""

from ..columns import Column, Table
from ..shared_columns import BOOL, I64, RANK, STEP, STR

HOST_READS = Table(
    "host_reads",
    "Lines of the script that read at least eight numbers out of tensors in one step.",
    (
        RANK,
        STEP,
        Column(
            "after_step",
            BOOL,
            "True for reads after optimizer.step(): they are counted in the row of `steps` after this step's.",
        ),
        Column("place", STR, "Line of the script that read."),
        Column("code", STR, "What stands there; null where the source cannot be read."),
        Column("device", STR, "Where the first of the tensors lies, such as cpu or cuda."),
        Column("reads", I64, "Reads in this step.", "reads"),
        Column(
            "loop_ns",
            I64,
            "Time of the loops that read: between reads less than a millisecond apart with no module called in "
            "between. It includes taking apart the tensor that a loop runs over.",
            "ns",
        ),
        Column("wait_ns", I64, "Time inside the reads.", "ns"),
    ),
    ("rank", "step", "place"),
)
