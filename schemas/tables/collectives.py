"""What the processes of one run say to each other."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, MICROBATCH, PHASE, RANK, SEQ, STEP, STR, TIME

COLLECTIVES = Table(
    "collectives",
    "Calls of torch.distributed and forwards of DistributedDataParallel, as this rank made them. A call that the step waits "
    "for has a first row when it begins, and a second one with the same number when it has returned.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        TIME,
        PHASE,
        Column("group", STR, "Name of the process group; default for that of all ranks."),
        Column("number", I64, "Calls that this rank had made in this group before."),
        Column(
            "op",
            STR,
            "Function, such as all_reduce; DistributedDataParallel for a forward before averaging, .__init__ its making.",
        ),
        Column("reduce_op", STR, "sum, avg, max …; null where nothing is reduced."),
        Column("dtype", STR, "Such as float32; null without a tensor."),
        Column("numel", I64, "Elements this rank gave or offered; null without a tensor.", "elements"),
        Column("peer", I32, "Source or destination rank; null if none."),
        Column("blocking", BOOL, "False where the call handed back a handle to wait on later (async_op)."),
        Column("waited_ns", I64, "Time inside the call; null while it has not returned.", "ns"),
        Column("sum_before", F64, "Sum over what was given to a sum or average; CPU, up to a million elements."),
        Column("size_before", F64, "Sum of magnitudes over what was given."),
        Column("sum_after", F64, "Sum over what came back."),
        Column("error", STR, "Exception that ended the call; null if none."),
        Column("place", STR, "Line of the script that made the call."),
    ),
    ("rank", "step", "seq"),
)

DDP_TIMES = Table(
    "ddp_times",
    "What DistributedDataParallel timed of itself: its first ten iterations, and each hundredth. An iteration under no_sync is "
    "none.",
    (
        RANK,
        STEP,
        Column("iteration", I64, "Synchronised forwards of the wrapper before this one.", "forwards"),
        Column("forward_ns", I64, "Time from the wrapper's forward to the first gradient.", "ns"),
        Column("backward_ns", I64, "Time from there to the last gradient.", "ns"),
        Column("comm_ns", I64, "Time from the first bucket handed to the other ranks to the last one back.", "ns"),
        Column("overlap_ns", I64, "Part of that in which gradients were still being computed.", "ns"),
        Column("buckets", I32, "Buckets of gradients that were averaged.", "buckets"),
        Column("backend", STR, "What carried them, such as gloo or nccl."),
    ),
    ("rank", "step", "iteration"),
)
