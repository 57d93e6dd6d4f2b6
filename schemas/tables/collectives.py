"""What the processes of one run say to each other."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, MICROBATCH, PHASE, RANK, SEQ, STEP, STR, TIME

COLLECTIVES = Table(
    "collectives",
    "Calls of torch.distributed and forwards of DistributedDataParallel, as this rank made them. A call that the step waits "
    "for has a first row when it begins. It has a second one with the same number when it has returned.",
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
        Column(
            "state",
            STR,
            "Of an imported dump: scheduled (handed to the device), started (running there) or completed; null where it does "
            "not tell.",
        ),
        Column(
            "timeout_ns", I64, "How long the call may take before it counts as failed; null if it is not known.", "ns"
        ),
        Column("frames_id", I64, "Stack that made the call, in table frames; null if it was not recorded."),
    ),
    ("rank", "step", "seq"),
)

PROCESS_GROUPS = Table(
    "process_groups",
    "Process groups as a dump of the Flight Recorder that was imported tells of them, one row for each rank.",
    (
        RANK,
        Column("group", STR, "Name of the process group, as in collectives."),
        Column("ranks", LIST, "Ranks that belong to it; null where the dump does not tell."),
        Column("calls", I64, "Calls that this rank had made in it; null where that is not known.", "calls"),
        Column("completed", I64, "Number of its last completed call, from 1; null where that is not known."),
    ),
    ("rank", "group"),
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
