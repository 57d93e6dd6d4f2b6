"""Weights beside the training step: checkpoints, copies of a model, use of embedding rows."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, RANK, STEP, STR, TIME

CHECKPOINTS = Table(
    "checkpoints",
    "One row per checkpoint file written or read, and per state that load_state_dict put into something.",
    (
        RANK,
        STEP,
        TIME,
        Column(
            "action",
            STR,
            "saved or read (a file); weights, optimizer or scheduler (load_state_dict of one of these).",
        ),
        Column("path", STR, "File, where it was put at last; null where there was none or it has no name."),
        Column("bytes", I64, "Size of the file.", "bytes"),
        Column("ns", I64, "Time that writing or reading took.", "ns"),
        Column("content", STR, "Class of what was written, read or loaded into."),
        Column("keys", STR, "First keys of a dict, as JSON list."),
        Column("entries", I64, "Entries of the dict, or weights that have state.", "entries"),
        Column("counter_name", STR, "Key of a whole number in it that counts steps, such as step or global_step."),
        Column("counter", I64, "That number."),
        Column("epoch_name", STR, "Key of a whole number in it that counts epochs, such as epoch."),
        Column("epoch", I64, "That number."),
        Column("last_epoch", I64, "Counter of the scheduler, or of the scheduler state in the file."),
        Column("optimizer_id", I32, "Optimizer that was loaded."),
        Column("state_step", F64, "Largest step counter of the optimizer state in it.", "steps"),
        Column("lr", F64, "Learning rate of the first group in it; after loading, for an optimizer."),
        Column("lr_before", F64, "Learning rate of the first group before loading."),
        Column("optimizer_entries", I64, "Weights of which the file holds optimizer state.", "tensors"),
        Column("module_id", I32, "Module that weights were loaded into; null where it is not known yet."),
        Column("whole", BOOL, "For weights: whether it is a whole model and no key was missing."),
        Column("matched", I64, "For weights: tensors of the module that the state dict has a key for.", "tensors"),
        Column("missing", I64, "For weights: keys of the module that the state dict does not have.", "keys"),
        Column("unexpected", I64, "For weights: keys of the state dict that the module does not have.", "keys"),
        Column(
            "compared", I64, "For weights: matched tensors of which a sample was compared before and after.", "tensors"
        ),
        Column("changed", I64, "Of those, the ones whose sample changed.", "tensors"),
        Column(
            "matrices",
            I64,
            "For weights: loaded matrices that were looked at when the next optimizer step began.",
            "tensors",
        ),
        Column("overwritten", I64, "Of those, the ones that had nothing of the loaded values any more.", "tensors"),
        Column("overwritten_weight", STR, "The first of these."),
        Column("shared", I64, "For weights: matched tensors that were the module's own memory already.", "tensors"),
        Column(
            "taken_step",
            I64,
            "For weights: step in which the state dict was taken by state_dict(); null where it is another object.",
        ),
        Column("assigned", BOOL, "For weights: whether load_state_dict was called with assign=True."),
        Column("call", STR, "For weights that were the module's own memory: the call, as the script has it written."),
    ),
    ("rank", "step", "time_ns"),
)

COPIES = Table(
    "copies",
    "Copies of a model's weights that no optimizer holds (averaged weights, targets, teachers), at every step.",
    (
        RANK,
        STEP,
        Column("copy_id", I32, "Number of the copy in this rank."),
        Column("name", STR, "Global variable of the script that holds it, else its class."),
        Column(
            "kind",
            STR,
            "averaged (torch's AveragedModel), module (a second model of the same class and shapes), part (a module that "
            "began as a copy of a part of the model), holder (an object with a dict or list of tensors).",
        ),
        Column("of_model", STR, "Model that it is a copy of."),
        Column("module_id", I32, "The copy as a module, once it has been called."),
        Column(
            "writes",
            I64,
            "In-place writes since the row before into each of a few of its weights, the fewest; null where torch does not count "
            "them. Writes through .data are not counted.",
            "writes",
        ),
        Column(
            "moved",
            F64,
            "Length of its change since the row before as a share of the model's weights, on a few elements; what comes "
            "after optimizer.step() counts in the row of the step after.",
        ),
        Column("model_moved", F64, "The same for the model."),
        Column("distance", F64, "Length of the difference between copy and model as a share of the model's weights."),
        Column(
            "model_set",
            F64,
            "Length of the change of the model's weights after the step before and before this one, as a share of them; null "
            "where there was none.",
        ),
        Column("distance_then", F64, "Where there was, the distance between copy and model when this step began."),
        Column(
            "statistics_moved",
            F64,
            "Length of the change of its running means and variances since the look before, as a share of the model's; null "
            "where they were not looked at, or it has none.",
        ),
        Column("model_statistics_moved", F64, "The same for the model."),
        Column("statistics_distance", F64, "Length of the difference of these statistics, as a share of the model's."),
    ),
    ("rank", "step", "copy_id"),
)

EMBEDDINGS = Table(
    "embeddings",
    "Rows of each embedding that the training has looked up so far. Measured at the first eight steps and every "
    "eighth after.",
    (
        RANK,
        STEP,
        Column("module_id", I32, "The embedding."),
        Column("rows", I64, "Rows that it has.", "rows"),
        Column("rows_used", I64, "Rows looked up at least once so far.", "rows"),
        Column("lookups", I64, "Lookups so far.", "lookups"),
    ),
    ("rank", "step", "module_id"),
)
