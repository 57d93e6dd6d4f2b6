"""The two JSON files of a run folder as tables, so that a rule can ask how the run ended in SQL.

Rows are made by the analyzer from run.json and exit.json; nothing here is written as Parquet.
"""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, STR

_RANK = Column("rank", I32, "Process of the run.")
_STEP = Column("step", I64, "Optimizer step it stood in; null if it was not known.")
_MICROBATCH = Column("microbatch", I32, "Backward passes already done in this step; null if it was not known.")
_PHASE = Column("phase", STR, "Where in the step it stood; null if it was not known.")

RUNS = Table(
    "runs",
    "One row: what run.json says about the start of the run.",
    (
        Column("run_id", STR, "Identity of the run."),
        Column("script", STR, "Script or module that was started."),
        Column("script_sha256", STR, "SHA-256 of the script's file; null for a module."),
        Column("argv", STR, "Its arguments, as JSON list."),
        Column("cwd", STR, "Folder it was started in."),
        Column("started_ns", I64, "When it was started.", "ns since 1970"),
        Column("hostname", STR, "Host it was started on."),
        Column("pid", I64, "Process id of the script."),
        Column("python", STR, "Python version."),
        Column("platform", STR, "Operating system and processor."),
        Column("versions", STR, "Versions of the libraries, as JSON object."),
        Column("git_commit", STR, "Commit of the script's checkout; null outside one."),
        Column("git_dirty", BOOL, "Whether that checkout had uncommitted changes."),
        Column("world_size", I32, "Number of ranks; null if it was not known at the start."),
        Column(
            "attempt", I32, "Number of the attempt that this row describes, the newest; 1 unless the run was resumed."
        ),
        Column("supervised", BOOL, "Whether a supervisor watched the process."),
        Column("config", STR, "Configuration that the script declared, as JSON object."),
        Column("options", STR, "Options of the recorder, as JSON object."),
    ),
    ("run_id",),
)

EXITS = Table(
    "exits",
    "One row: how the run ended, from exit.json; without that file the status that the reader found and nothing else.",
    (
        Column(
            "status",
            STR,
            "completed, exception, signal, oom, hang; running or host-lost without an exit record; unknown with a damaged one.",
        ),
        Column(
            "process_gone",
            BOOL,
            "True for a host-lost run whose processes are known to be gone. It was recorded on the host that reads it.",
        ),
        Column("exit_code", I32, "Exit status of the script; null if a signal ended it."),
        Column("signal", I32, "Number of the signal that ended it."),
        Column("signal_name", STR, "Its name, such as SIGKILL."),
        Column("core_dumped", BOOL, "Whether the kernel wrote a core file."),
        Column("ended_ns", I64, "When it ended.", "ns since 1970"),
        Column("rank", I32, "Rank that raised the exception."),
        _STEP,
        _MICROBATCH,
        _PHASE,
        Column("module", STR, "Innermost module whose forward raised; empty for the root, null outside modules."),
        Column("module_class", STR, "Its class."),
        Column("exception_type", STR, "Class of the exception; null if there was none."),
        Column("exception_message", STR, "Its message."),
        Column("traceback", STR, "The whole traceback."),
        Column("user_frame", STR, "Innermost frame outside libraries, as file:line in function."),
        Column("native_stack", STR, "Stacks that faulthandler wrote at a native crash."),
        Column(
            "device_assertion",
            STR,
            "What a kernel of the device printed when a condition failed, as kernel: condition.",
        ),
        Column("memory_peak_bytes", I64, "Largest memory use seen.", "bytes"),
        Column("memory_limit_bytes", I64, "Limit of the control group or host.", "bytes"),
        Column("oom_kills", I64, "oom_kill counter of the control group.", "kills"),
        Column("note", STR, "Remark of the supervisor."),
    ),
    ("status",),
)

ATTEMPTS = Table(
    "attempts",
    "One row per attempt of the run: several where it was resumed into the same folder.",
    (
        Column("attempt", I32, "Number of the attempt, from 1."),
        Column("first_step", I64, "Number of its first step; steps before it belong to earlier attempts."),
        Column("started_ns", I64, "When it was started.", "ns since 1970"),
        Column("ended_ns", I64, "When it ended; null if nobody could write that down.", "ns since 1970"),
        Column("hostname", STR, "Host it was started on."),
        Column("script", STR, "Script or module that was started."),
        Column("git_commit", STR, "Commit of the script's checkout; null outside one."),
        Column("status", STR, "How it ended, as exits.status; host-lost without an exit record."),
        Column("exit_code", I32, "Exit status of the script; null if a signal ended it."),
        Column("signal_name", STR, "Name of the signal that ended it, such as SIGKILL."),
        Column("exception_type", STR, "Class of the exception that ended it; null if there was none."),
        Column("note", STR, "Remark of the supervisor."),
    ),
    ("attempt",),
)

LAST_POSITIONS = Table(
    "last_positions",
    "Where each rank stood when the run ended, from the breadcrumb.",
    (
        _RANK,
        Column("pid", I64, "Process id."),
        Column("time_ns", I64, "When it was last heard of.", "ns since 1970"),
        _STEP,
        _MICROBATCH,
        _PHASE,
        Column("module", STR, "Module in flight; empty for the root, null outside modules."),
    ),
    ("rank",),
)

EXCEPTION_TENSORS = Table(
    "exception_tensors",
    "Tensors that were at hand when the exception was raised.",
    (
        Column(
            "origin",
            STR,
            "input (entered the module in flight), local (variable of one of the innermost frames), or attribute (of the module "
            "in flight, neither parameter nor buffer).",
        ),
        Column("ordinal", I32, "Position among those of the same origin."),
        Column("name", STR, "Name of the argument or variable."),
        Column("shape", LIST, "Shape."),
        Column("dtype", STR, "Such as float32."),
        Column("device", STR, "Such as cpu or cuda:0."),
        Column("min", F64, "Smallest element; null if it was not measured."),
        Column("max", F64, "Largest element; null if it was not measured."),
    ),
    ("origin", "ordinal"),
)

RECORDS: dict[str, Table] = {t.name: t for t in (RUNS, ATTEMPTS, EXITS, LAST_POSITIONS, EXCEPTION_TENSORS)}
"""Tables that the reader makes from the JSON files, by name."""
