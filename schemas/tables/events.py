"""What happened beside the steps: metrics, events, the machine, the recorder itself."""

from ..columns import Column, Table
from ..shared_columns import F64, I32, I64, MICROBATCH, PHASE, RANK, STEP, STR, TIME

METRICS = Table(
    "metrics",
    "Values that the script named itself: through the Python API, TensorBoard, wandb or mlflow.",
    (
        RANK,
        STEP,
        TIME,
        Column("name", STR, "Name given by the script; of nested values the names joined by /."),
        Column("value", F64, "Value given by the script."),
        Column(
            "source",
            STR,
            "What it was given to: firstfault, tensorboard, wandb, mlflow; read: a loss of an evaluation that item() gave; or "
            "imported from: csv, json, trainer_state.",
        ),
        Column("logged_step", I64, "Step that the script gave with it, in its own count; null if it gave none."),
    ),
    ("rank", "step", "name"),
)


EVENTS = Table(
    "events",
    "What happened beside the numbers: exceptions, mode changes, what the recorder dropped or switched off.",
    (
        RANK,
        TIME,
        STEP,
        MICROBATCH,
        PHASE,
        Column(
            "event",
            STR,
            "Slug: attached, model-found, optimizer-found, mode-changed, compiled-model, compiled, recompiled, seeded, "
            "warning, exception, rows-dropped, memory-not-looked-at, recorder-fault …",
        ),
        Column("module_id", I32, "Module concerned; null if none."),
        Column("message", STR, "One sentence."),
        Column("detail", STR, "More, as a JSON object; null if there is no more."),
    ),
    ("rank", "time_ns"),
)
