"""Whether the targets of a loss stand among the tokens that the model was given."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, MICROBATCH, RANK, SEQ, STEP

TARGET_LOOKUPS = Table(
    "target_lookups",
    "One row per embedding lookup behind a loss, in a few backward passes of the run. The lookup has an index for "
    "each target of the loss.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        Column("module_id", I32, "The embedding; null outside modules."),
        Column("targets", I64, "Targets of the loss.", "elements"),
        Column("counted", I64, "Of these, the ones that are not ignored.", "elements"),
        Column("equal", I64, "Of the counted ones, those that are the index at the same place.", "elements"),
        Column(
            "masked",
            I64,
            "Of the others, those whose place holds the most frequent index there, where that is no target. The "
            "token of a mask is such an index.",
            "elements",
        ),
        Column("varied", BOOL, "Whether the counted targets are of several classes."),
        Column(
            "others_varied", BOOL, "Whether the indices at the places of ignored targets are several; null without any."
        ),
        Column(
            "ends_reached",
            BOOL,
            "Whether a gradient came back to what was looked up at the last place of a dimension, in both dimensions; null where "
            "that was not looked at.",
        ),
        Column(
            "counted_reached",
            F64,
            "Share of the counted places to which a gradient came back; null where that was not looked at.",
        ),
        Column("attentions", I32, "Attention operators behind the loss.", "operators"),
        Column(
            "next_places",
            I64,
            "Counted targets that have an index one place later; null where all attention looks back only.",
            "elements",
        ),
        Column("next_equal", I64, "Of these, the ones that are the index one place later.", "elements"),
        Column(
            "ahead",
            I32,
            "Attention operators of this sequence over itself in which a query sees a later key: counted where all targets are "
            "the index one place later, and no other sequence of tokens is read.",
            "operators",
        ),
        Column(
            "later",
            I32,
            "By how many places, one or two, all counted targets are later tokens than those at their own places; null where by "
            "neither.",
            "places",
        ),
        Column("causal", I32, "Of these, the ones in which no query sees a later key.", "operators"),
    ),
    ("rank", "step", "seq"),
)
