"""Who holds memory: what gathers from step to step and by which line, and what is there when it runs out."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, RANK, STEP, STR, TIME

MEMORY_OWNERS = Table(
    "memory_owners",
    "Objects that were found to grow, looked for when memory or kept graphs grow. Each is a list, a dictionary, a "
    "sum that keeps its graph, or a tensor that is made longer. One row for each look at which it had grown "
    "since the look before.",
    (
        RANK,
        STEP,
        Column(
            "kind",
            STR,
            "list (also a deque), dict, set: a container that gained elements. sum: a tensor that keeps the graphs of what was "
            "added to it. longer: a tensor whose first dimension rises. tensors: tensors of one shape that are held "
            "somewhere, one of them by the holder. class: objects of a class that are held somewhere.",
        ),
        Column("holder", STR, "Name in the source, such as `seen` or `Trainer.buffer`; null where none was found."),
        Column(
            "scope",
            STR,
            "global variable of …, local variable of …, attribute, class attribute, variable of … (closure).",
        ),
        Column("module_id", I32, "Module whose attribute it is, or whose outputs it gathers; null if none."),
        Column("place", STR, "Line of the script that adds to it; null where none was found."),
        Column("expression", STR, "The statement there."),
        Column("element", STR, "tensor, or the class of what is added."),
        Column("shape", LIST, "Of a tensor that was added last."),
        Column("dtype", STR, "Such as float32; null without a tensor."),
        Column("device", STR, "Such as cpu or cuda:0; null without a tensor."),
        Column("with_graph", BOOL, "Whether the tensor has its autograd graph."),
        Column(
            "shared", BOOL, "Whether it lies in memory shared between processes, as what a DataLoader's worker sends."
        ),
        Column("length", I64, "Elements now, summands or rows.", "elements"),
        Column("rate", F64, "Elements gained per step since the look before.", "elements"),
        Column("bytes_each", I64, "Memory of one element; 0 for a sum, whose memory is in its graphs.", "bytes"),
        Column("since_step", I64, "Step at which it began, if it began empty and grew at this rate."),
    ),
    ("rank", "step", "holder"),
)


MEMORY_BLOCKS = Table(
    "memory_blocks",
    "What is in memory at a moment worth a look: tensors that Python knows, or blocks of the CUDA allocator. "
    "Those of one kind are one row. The 48 rows that take most are kept.",
    (
        RANK,
        STEP,
        Column("trigger", STR, "Why it was looked: growth, oom, end."),
        Column("source", STR, "python: tensors that Python knows. cuda: blocks of the caching allocator."),
        Column(
            "category",
            STR,
            "parameter, gradient, optimizer_state, buffer, batch, activation (has an autograd graph), other; unseen: device "
            "memory in tensors that Python does not know, mostly saved in graphs. Of blocks: allocated, free (kept by the "
            "allocator for later), awaiting (freed, in use by another stream).",
        ),
        Column("shape", LIST, "Their shape; null for blocks."),
        Column("dtype", STR, "Such as float32; null for blocks."),
        Column("device", STR, "Such as cpu or cuda:0."),
        Column("blocks", I64, "How many there are.", "tensors or blocks"),
        Column("bytes", I64, "Memory that they take, each storage counted once.", "bytes"),
        Column("largest_bytes", I64, "The largest of them.", "bytes"),
        Column("oldest_step", I64, "First step from which one of them is; null where it is not known."),
        Column("module_id", I32, "Module that put one of them out; null where it is not known."),
        Column("place", STR, "Innermost line outside torch that allocated them; recorded with --memory-history only."),
        Column(
            "purpose",
            STR,
            "What the stack of a block says that it is for: parameter, optimizer_state, gradient, activation, communication, "
            "other; null without a stack and for tensors.",
        ),
    ),
    ("rank", "step", "trigger", "category", "shape", "dtype"),
)


MEMORY_SEGMENTS = Table(
    "memory_segments",
    "Segments of the CUDA allocator, as an imported snapshot has them. A segment is what it holds of the device "
    "in one piece.",
    (
        RANK,
        Column("device", STR, "Such as cuda:0."),
        Column("address", I64, "Address."),
        Column("bytes", I64, "Size.", "bytes"),
        Column("allocated_bytes", I64, "In blocks that are in use.", "bytes"),
        Column("requested_bytes", I64, "What was asked for in these blocks; the rest is rounding.", "bytes"),
        Column("awaiting_bytes", I64, "In blocks that were freed and are in use by another stream.", "bytes"),
        Column("free_bytes", I64, "In blocks that the allocator keeps for later.", "bytes"),
        Column("largest_free_bytes", I64, "The largest of them.", "bytes"),
        Column("blocks", I64, "How many blocks there are.", "blocks"),
        Column("stream", I64, "Stream that it belongs to."),
        Column("kind", STR, "small, large, or expandable where the allocator can extend it."),
    ),
    ("rank", "device", "address"),
)


MEMORY_EVENTS = Table(
    "memory_events",
    "History of the CUDA allocator, as a snapshot that was imported has it.",
    (
        RANK,
        Column("event_id", I64, "Position in the history."),
        TIME,
        Column("device", STR, "Such as cuda:0."),
        Column(
            "action",
            STR,
            "alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap, snapshot, oom.",
        ),
        Column("addr", I64, "Address."),
        Column("bytes", I64, "Size.", "bytes"),
        Column("stream", I64, "Stream it was asked for on."),
        Column("category", STR, "What it is for, where a profile was made into a snapshot; else null."),
        Column("device_free_bytes", I64, "Of oom: memory that was free on the device.", "bytes"),
        Column("frames_id", I64, "Stack that asked for it, in table frames; null if it was not recorded."),
        Column("place", STR, "Innermost line outside torch of that stack; null if there is none."),
    ),
    ("rank", "event_id"),
)


FRAMES = Table(
    "frames",
    "Call stacks, each once: one row per frame.",
    (
        RANK,
        Column("frames_id", I64, "Number of the stack."),
        Column("depth", I32, "Place in the stack; 0 is the innermost."),
        Column("file", STR, "File."),
        Column("line", I32, "Line."),
        Column("function", STR, "Function."),
    ),
    ("rank", "frames_id", "depth"),
)
