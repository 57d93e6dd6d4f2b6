"""Who is who: processes, modules and tensors, each described once."""

from ..columns import Column, Table
from ..shared_columns import BOOL, I32, I64, LIST, MICROBATCH, RANK, SEQ, STEP, STR, TIME

RANKS = Table(
    "ranks",
    "One row per process that recorded.",
    (
        RANK,
        Column("world_size", I32, "Number of ranks in the job."),
        Column("pid", I64, "Process id."),
        Column("hostname", STR, "Host it ran on."),
        TIME,
        Column("torch_version", STR, "torch.__version__."),
        Column("devices", STR, "Accelerators visible, as JSON list of names."),
        Column("threads", I32, "torch.get_num_threads() when recording began."),
        Column(
            "processors",
            I32,
            "Processors that the process may use: its affinity, or its control group's quota if less.",
        ),
        Column(
            "open_files_limit", I64, "Descriptors that the process may hold open; null without a limit.", "descriptors"
        ),
        Column(
            "instructions",
            STR,
            "Instructions with which the C library measures tensors in the host's memory: avx2, or baseline; null without it.",
        ),
        Column(
            "without_library",
            STR,
            "Why torch's operators measure tensors in the host's memory; null where the C library does.",
        ),
        Column("seed", I64, "torch.initial_seed() when the first step began."),
        Column("seeded", BOOL, "Whether the script had called torch.manual_seed when the first step began."),
        Column("python_rng", I64, "Hash of random.getstate() when the first step began."),
        Column("numpy_rng", I64, "Hash of numpy.random.get_state() when the first step began; null without numpy."),
        Column("deterministic", BOOL, "torch.are_deterministic_algorithms_enabled() when the first step began."),
    ),
    ("rank",),
    latest=True,
)


MODULES = Table(
    "modules",
    "One row per nn.Module of every model that was called.",
    (
        RANK,
        Column("module_id", I32, "Number of the module in this rank."),
        Column(
            "model",
            STR,
            "Model it belongs to: the global variable that held it when it was first called, else its class.",
        ),
        Column("module", STR, "Name from named_modules() of the model; empty for the root."),
        Column("class_name", STR, "Class of the module."),
        Column("parent_id", I32, "module_id of the enclosing module; null for a root."),
        Column("depth", I32, "Dots from the root; 0 for the root."),
        Column("call_order", I32, "Order of the first forward call; null if it has not been called."),
        Column("own_numel", I64, "Elements in parameters that the module itself owns."),
        Column(
            "settings", STR, "Its public attributes that are numbers, truth values or short strings, as JSON object."
        ),
    ),
    ("rank", "module_id"),
    latest=True,
)


MODULE_MODES = Table(
    "module_modes",
    "One row when a module runs in a mode in which it had not run before. It records changes, not every call.",
    (
        RANK,
        STEP,
        MICROBATCH,
        SEQ,
        Column("module_id", I32, "Module that was called."),
        Column("training", BOOL, "Its training flag in this call."),
        Column("grad", BOOL, "Whether autograd was on in this call."),
        Column("autocast", STR, "dtype of autocast in this call; null where it was off."),
    ),
    ("rank", "step", "seq"),
)


TENSORS = Table(
    "tensors",
    "One row per tensor that was measured: what tensor_id means.",
    (
        RANK,
        Column("tensor_id", I32, "Number of the tensor in this rank."),
        Column("tensor_name", STR, "Parameter name, or module name and position such as `blocks.0.attn:output0`."),
        Column(
            "kind", STR, "parameter, gradient, update, activation, activation_gradient, input, target, output, loss …"
        ),
        Column("module_id", I32, "Module that owns or produced it; null outside modules."),
        Column("shape", LIST, "Shape when last described; of a DTensor, of the whole."),
        Column("dtype", STR, "Such as float32."),
        Column("device", STR, "Such as cpu or cuda:0."),
        Column("numel", I64, "Elements; of a DTensor, of the whole.", "elements"),
        Column("requires_grad", BOOL, "Whether autograd tracked it when last described."),
        Column("optimizer_id", I32, "Optimizer that holds the parameter; null if none does."),
        Column("group_id", I32, "Parameter group that holds it; null if none does."),
        Column(
            "registered",
            BOOL,
            "False for a parameter that a module reaches only through a Python list, dict or plain attribute.",
        ),
        Column(
            "storage", I32, "Number of the storage of a weight that has several names; null for one that has its own."
        ),
        Column(
            "placements",
            STR,
            "How a DTensor lies on its mesh, a word for each dimension of it: Shard(0), Replicate, Partial(sum); null for a "
            "plain tensor. Moments are of this rank's part.",
        ),
        Column("mesh", STR, "Names and sizes of the dimensions of that mesh, such as dp=2, tp=4."),
        Column("mesh_ranks", LIST, "Ranks of that mesh.", "ranks"),
        Column(
            "shard_ranks", LIST, "Ranks whose parts, or summands, make up the tensor, this one among them.", "ranks"
        ),
        Column("replica_ranks", LIST, "Ranks that hold the same part, this one among them.", "ranks"),
        Column("rows", I64, "For a weight of two or more dimensions: its first dimension.", "rows"),
        Column(
            "distinct_rows",
            I64,
            "Rows that differ, at the start; of a weight whose rows were equal, at step 3 and 10 again, then ever more rarely "
            "until they differ; null if not looked at.",
            "rows",
        ),
        Column(
            "distinct_rows_step",
            I64,
            "Step of the latest look at them; null if that was the one at the start.",
            "steps",
        ),
    ),
    ("rank", "tensor_id"),
    latest=True,
)
