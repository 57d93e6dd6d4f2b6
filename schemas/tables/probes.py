"""What was counted or looked at beside the moments of tensors: probes of modules, a census of living tensors."""

from ..columns import Column, Table
from ..shared_columns import F64, I32, I64, LIST, MICROBATCH, PHASE, RANK, SEQ, STEP, STR

PROBES = Table(
    "probes",
    "One number about a module that moments of its tensors do not show.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        PHASE,
        Column("module_id", I32, "Module it is about; null for what belongs to all modules or none."),
        Column("tensor_id", I32, "Tensor it was taken from; null if from none."),
        Column(
            "probe",
            STR,
            "What was measured. hooks: on a module and its parameters, a row when their number has changed. kept_outputs: of "
            "a module in earlier steps, still held with their graphs, a row when their number has changed. batch_std: spread "
            "of a two-dimensional output over the batch, root mean square over its columns. direction_std: the same of its rows "
            "scaled to length 1, over all columns together: 0 where all point one way, near 1 where they point anywhere. "
            "attention_sure: share of rows of attention weights in which one key has all the weight. attention_entropy: "
            "mean entropy of such rows, in nats. attention_on_padding: weight that such rows of samples with padding "
            "give to it; scale is its share of the positions. checkpointed_without_graph: a block under reentrant "
            "checkpointing whose inputs require no gradient. "
            "eval_output_before_training, output_in_training: root mean square of the output of a model "
            "that was evaluated before its first training forward, there and in its first training forwards. "
            "buffer_set_by_training: root mean square of a buffer of a module after the first of them, where it was another "
            "before.",
        ),
        Column("value", F64, "The number."),
        Column(
            "scale",
            F64,
            "What to compare it with: of batch_std the root mean square of the same elements, of attention the keys or "
            "the padding, of a buffer what it was.",
        ),
    ),
    ("rank", "step", "seq"),
)


LIVE_TENSORS = Table(
    "live_tensors",
    "A census, taken seldom: tensors of one shape and dtype that were alive at the end of a step. It keeps the 16 "
    "groups that grew most.",
    (
        RANK,
        STEP,
        Column("shape", LIST, "Their shape."),
        Column("dtype", STR, "Such as float32."),
        Column("tensors", I64, "How many there are.", "tensors"),
        Column("with_graph", I64, "How many of them an operator of an autograd graph has made.", "tensors"),
        Column("bytes", I64, "Memory that they hold, each storage counted once.", "bytes"),
    ),
    ("rank", "step", "shape", "dtype"),
)
