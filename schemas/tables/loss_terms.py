"""The addends of a loss: which weights each can train, and whether it did."""

from ..columns import Column, Table
from ..shared_columns import BOOL, I32, LIST, MICROBATCH, RANK, SEQ, STEP, STR

LOSS_TERMS = Table(
    "loss_terms",
    "One row per addend of a loss that is a sum: what became of its gradients. It is measured in a few backward "
    "passes of the run.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        Column("loss_kind", I32, "Number of the loss, told apart by how its addends are made."),
        Column("term", I32, "Number of the addend."),
        Column("terms", I32, "Addends of the loss.", "addends"),
        Column("op", STR, "Autograd name of the operator that made the addend, without suffix, such as MseLoss."),
        Column("module_id", I32, "Module in whose forward the addend's last operators ran; null outside modules."),
        Column("parameters", I32, "Weights that its graph reaches.", "tensors"),
        Column("optimizers", LIST, "Optimizers that hold some of these weights."),
        Column("unheld", I32, "Of these weights, those that no optimizer holds.", "tensors"),
        Column("stepped", LIST, "Optimizers that stepped from this backward until its last gradients were cleared."),
        Column(
            "used",
            BOOL,
            "Whether a step took up gradients of weights that it reaches; null where its graph does not tell which these are.",
        ),
    ),
    ("rank", "step", "seq"),
)
