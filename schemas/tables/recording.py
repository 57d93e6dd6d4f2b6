"""The recording itself: samples of the machine, its own cost, rows thinned out."""

from ..columns import Column, Table
from ..shared_columns import F64, I32, I64, RANK, STEP, STR, TIME

SYSTEM_SAMPLES = Table(
    "system_samples",
    "What the supervisor saw of the process tree and its limits.",
    (
        TIME,
        Column("processes", I32, "Processes in the tree of the script.", "processes"),
        Column("rss_bytes", I64, "Resident memory of the tree.", "bytes"),
        Column("cpu_percent", F64, "CPU of the tree since the sample before; 100 is one core.", "%"),
        Column("threads", I32, "Threads in the tree.", "threads"),
        Column("runnable", I32, "Threads in the tree that ran or waited for a processor at that moment.", "threads"),
        Column(
            "pss_bytes",
            I64,
            "Memory of the tree with shared pages counted once; measured every few seconds, else null.",
            "bytes",
        ),
        Column("workers", I32, "Forked worker processes of DataLoaders; measured with pss_bytes.", "processes"),
        Column(
            "worker_private_bytes",
            I64,
            "Anonymous memory that workers hold for themselves, not shared with the process they were forked from; an estimate.",
            "bytes",
        ),
        Column(
            "memory_used_bytes",
            I64,
            "Memory in use in the control group, or on the host where there is no group limit.",
            "bytes",
        ),
        Column("memory_limit_bytes", I64, "Limit of the control group, or the host's memory.", "bytes"),
        Column("oom_kills", I64, "oom_kill counter of the control group; null where it cannot be read.", "kills"),
    ),
    ("time_ns",),
)


RECORDER_STATS = Table(
    "recorder_stats",
    "What the recorder itself cost and how it adapted, one row per kind of work and interval.",
    (
        RANK,
        STEP,
        TIME,
        Column(
            "part",
            STR,
            "Kind of work: activations, activation_gradients, gradients, parameters, updates, rows, rest, unwatched; snapshots"
            " are written by a thread beside the steps; start and end are outside them.",
        ),
        Column("ns", I64, "Time spent on it since its row before.", "ns"),
        Column("calls", I64, "Times it ran since its row before.", "calls"),
        Column("interval", I32, "Measured at every so many steps from here on; 1 is every step.", "steps"),
        Column("reason", STR, "Why the interval is what it is: budget, option, off, full."),
    ),
    ("rank", "step", "part"),
)


THINNED = Table(
    "thinned",
    "Steps whose rows of tensor_stats were removed so that the folder stays within --disk-limit. A later row may "
    "say more of the same steps.",
    (
        Column("rank", I32, "Rank whose rows were removed."),
        TIME,
        Column("first_step", I64, "First step of the stretch."),
        Column("last_step", I64, "Last step of the stretch."),
        Column("every", I32, "Within it only steps that this number divides were kept; null: none was.", "steps"),
        Column("rows", I64, "Rows that were removed this time.", "rows"),
    ),
    ("rank", "first_step", "time_ns"),
)
