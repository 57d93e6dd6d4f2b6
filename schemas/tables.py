"""Every table of a run folder, each declared once with a sentence and a unit for each column.

Null always means "not measured", never zero. Time order inside a step is ``(rank, step, microbatch, seq)``.
"""

import pyarrow as pa

from .columns import Column, Table

_I8, _I32, _I64, _F64, _BOOL, _STR = pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.string()
_SHAPE = pa.list_(pa.int64())

_RANK = Column("rank", _I32, "Process of the run, as torch.distributed numbers it; 0 in a single-process run.")
_STEP = Column(
    "step", _I64, "Optimizer step, counted from 0; an iteration whose step was skipped or missing counts too."
)
_MICROBATCH = Column("microbatch", _I32, "Backward passes already done in this step when the row was captured.")
_SEQ = Column("seq", _I32, "Order of capture inside the step.")
_PHASE = Column("phase", _I8, "Where in the step the row was captured.", "enum Phase")
_TIME = Column("time_ns", _I64, "Wall clock.", "ns since 1970")

RANKS = Table(
    "ranks",
    "One row per process that recorded.",
    (
        _RANK,
        Column("world_size", _I32, "Number of ranks in the job."),
        Column("pid", _I64, "Process id."),
        Column("hostname", _STR, "Host it ran on."),
        _TIME,
        Column("torch_version", _STR, "torch.__version__."),
        Column("devices", _STR, "Accelerators visible, as JSON list of names."),
        Column("threads", _I32, "torch.get_num_threads() when recording began."),
        Column("seed", _I64, "torch.initial_seed() when the first step began."),
    ),
    ("rank",),
    latest=True,
)

MODULES = Table(
    "modules",
    "One row per nn.Module of every model that was called.",
    (
        _RANK,
        Column("module_id", _I32, "Number of the module in this rank."),
        Column(
            "model",
            _STR,
            "Model it belongs to: the global variable that held it when it was first called, else its class.",
        ),
        Column("module", _STR, "Name from named_modules() of the model; empty for the root."),
        Column("class_name", _STR, "Class of the module."),
        Column("parent_id", _I32, "module_id of the enclosing module; null for a root."),
        Column("depth", _I32, "Dots from the root; 0 for the root."),
        Column("call_order", _I32, "Order of the first forward call; null if it has not been called."),
        Column("own_numel", _I64, "Elements in parameters that the module itself owns."),
    ),
    ("rank", "module_id"),
    latest=True,
)

TENSORS = Table(
    "tensors",
    "One row per tensor that was measured: what tensor_id means.",
    (
        _RANK,
        Column("tensor_id", _I32, "Number of the tensor in this rank."),
        Column("tensor_name", _STR, "Parameter name, or module name and position such as `blocks.0.attn:output0`."),
        Column(
            "kind", _STR, "parameter, gradient, update, activation, activation_gradient, input, target, output, loss …"
        ),
        Column("module_id", _I32, "Module that owns or produced it; null outside modules."),
        Column("shape", _SHAPE, "Shape when last described."),
        Column("dtype", _STR, "Such as float32."),
        Column("device", _STR, "Such as cpu or cuda:0."),
        Column("numel", _I64, "Elements."),
        Column("requires_grad", _BOOL, "Whether autograd tracked it when last described."),
        Column("optimizer_id", _I32, "Optimizer that holds the parameter; null if none does."),
        Column("group_id", _I32, "Parameter group that holds it; null if none does."),
    ),
    ("rank", "tensor_id"),
    latest=True,
)

TENSOR_STATS = Table(
    "tensor_stats",
    "Mergeable moments of one tensor at one moment; the finite elements only, so that ranks and windows can be combined.",
    (
        _RANK,
        _STEP,
        _MICROBATCH,
        _SEQ,
        _PHASE,
        Column("tensor_id", _I32, "Which tensor."),
        Column("numel", _I64, "Elements measured; for kind update a sample of the tensor.", "elements"),
        Column("nan_count", _I64, "NaN elements.", "elements"),
        Column("inf_count", _I64, "Infinite elements.", "elements"),
        Column(
            "zero_count",
            _I64,
            "Elements that are exactly zero; measured where the minimum or maximum is zero.",
            "elements",
        ),
        Column("min", _F64, "Smallest finite element."),
        Column("max", _F64, "Largest finite element."),
        Column("sum", _F64, "Sum over the finite elements."),
        Column("sum_sq", _F64, "Sum of squares over the finite elements."),
        Column("missing", _BOOL, "True where the tensor did not exist at this point: a gradient that is None."),
        Column(
            "requires_grad", _BOOL, "Whether autograd tracked the tensor at this moment; null where it does not matter."
        ),
    ),
    ("rank", "step", "seq"),
)

STEPS = Table(
    "steps",
    "One row per optimizer step (per optimizer, where several step in one iteration).",
    (
        _RANK,
        _STEP,
        Column(
            "optimizer_id", _I32, "Optimizer that stepped; null when the iteration ended without an optimizer step."
        ),
        _TIME,
        Column("completed", _BOOL, "True when optimizer.step() had returned, or the iteration had otherwise ended."),
        Column("stepped", _BOOL, "True when optimizer.step() ran."),
        Column("skipped_by_scaler", _BOOL, "True when a GradScaler found non-finite gradients and left the step out."),
        Column("microbatches", _I32, "Backward passes in this row.", "passes"),
        Column("loss", _F64, "Mean of the losses on which backward was called, before loss scaling."),
        Column("grad_norm", _F64, "L2 norm of all gradients as the optimizer saw them; null if there were none."),
        Column(
            "clip_norm", _F64, "Total norm that clip_grad_norm_ found before it clipped; null when it was not called."
        ),
        Column("clip_max_norm", _F64, "max_norm given to clip_grad_norm_."),
        Column(
            "carried_grad_norm",
            _F64,
            "Norm of the gradients that were there when the first backward of the step began.",
        ),
        Column("loss_scale", _F64, "GradScaler scale in force; null without a scaler."),
        Column("training", _BOOL, "Mode of the model in its last forward of the step."),
        Column(
            "eval_forwards",
            _I32,
            "Forward passes of a model without gradients or in eval mode since the row before.",
            "passes",
        ),
        Column("step_ns", _I64, "Time since the row before.", "ns"),
        Column("data_wait_ns", _I64, "Time waiting for the DataLoader.", "ns"),
        Column("forward_ns", _I64, "Time inside the outermost module calls.", "ns"),
        Column("backward_ns", _I64, "Time inside backward().", "ns"),
        Column("optimizer_ns", _I64, "Time inside optimizer.step().", "ns"),
        Column("recorder_ns", _I64, "Time the recorder itself took, part of the times above.", "ns"),
        Column("journal_bytes", _I64, "Bytes appended to the journal for the row before.", "bytes"),
        Column("rss_bytes", _I64, "Resident memory of the process at the end of the step.", "bytes"),
    ),
    ("rank", "step", "optimizer_id"),
)

PARAM_GROUPS = Table(
    "param_groups",
    "Hyper-parameters of every parameter group at every step.",
    (
        _RANK,
        _STEP,
        Column("optimizer_id", _I32, "Number of the optimizer in this rank."),
        Column("group_id", _I32, "Index in optimizer.param_groups."),
        Column("optimizer", _STR, "Class of the optimizer."),
        Column("lr", _F64, "Learning rate used in this step."),
        Column("weight_decay", _F64, "Weight decay of the group; null if it has none."),
        Column("momentum", _F64, "momentum, or beta1; null if it has none."),
        Column("beta2", _F64, "beta2; null if it has none."),
        Column("eps", _F64, "eps; null if it has none."),
        Column("numel", _I64, "Elements in the group.", "elements"),
        Column(
            "update_norm",
            _F64,
            "L2 norm of the change of the group's weights in this step, estimated from the measured sample.",
        ),
        Column("weight_norm", _F64, "L2 norm of the group's weights after this step, estimated from the same sample."),
    ),
    ("rank", "step", "optimizer_id", "group_id"),
)

BATCHES = Table(
    "batches",
    "One row per field of every batch: what came from the loader, entered the model, or was the target of the loss.",
    (
        _RANK,
        _STEP,
        _MICROBATCH,
        _SEQ,
        _PHASE,
        Column("field", _STR, "Position or key in the batch, argument of the model, or `target` of the loss."),
        Column(
            "role", _STR, "input (entered a model), target (of the loss), or field (came from the loader, use unknown)."
        ),
        Column("tensor_id", _I32, "The tensor; its moments are in tensor_stats with the same step and seq."),
        Column("shape", _SHAPE, "Shape of this batch."),
        Column("dtype", _STR, "Such as float32."),
        Column("batch_size", _I64, "First dimension; null for a scalar.", "samples"),
        Column("fingerprint", _I64, "64-bit hash of shape, dtype and up to 64 KiB of evenly spaced content."),
        Column("loss_op", _STR, "Autograd name of the loss for a target, such as NllLossBackward0."),
        Column("classes", _I64, "Number of classes the loss saw, for an integer target.", "classes"),
        Column("ignored_count", _I64, "Targets equal to ignore_index.", "elements"),
        Column(
            "out_of_range_count",
            _I64,
            "Targets below 0 or not below the number of classes, and not ignored.",
            "elements",
        ),
    ),
    ("rank", "step", "seq"),
)

OPERATORS = Table(
    "operators",
    "What an autograd node had saved, looked at where it can explain a non-finite value; position by graph order.",
    (
        _RANK,
        _STEP,
        _MICROBATCH,
        _SEQ,
        _PHASE,
        Column("op", _STR, "Autograd name of the operator without suffix, such as Sqrt, Log, Softmax, MaskedFill."),
        Column("graph_seq", _I64, "Order in which the forward pass ran the operators of this step."),
        Column("module_id", _I32, "Innermost module in whose forward the operator ran; null outside all modules."),
        Column("saved", _STR, "Which saved tensor was looked at: self, other, result, mask …"),
        Column(
            "trigger",
            _STR,
            "Why: `nonfinite` (a tensor had just come out non-finite) or `risk` (derivative undefined at this value).",
        ),
        Column("dtype", _STR, "dtype of the saved tensor."),
        Column("shape", _SHAPE, "Its shape."),
        Column("numel", _I64, "Its elements.", "elements"),
        Column("nan_count", _I64, "NaN elements.", "elements"),
        Column("inf_count", _I64, "Infinite elements.", "elements"),
        Column("zero_count", _I64, "Elements exactly zero.", "elements"),
        Column("min", _F64, "Smallest finite element."),
        Column("max", _F64, "Largest finite element."),
        Column("rows", _I64, "For a mask: rows along the last dimension.", "rows"),
        Column("full_rows", _I64, "For a mask: rows that mask everything; for a result: rows wholly NaN.", "rows"),
    ),
    ("rank", "step", "seq"),
)

METRICS = Table(
    "metrics",
    "Values that the script named itself through the Python API.",
    (
        _RANK,
        _STEP,
        _TIME,
        Column("name", _STR, "Name given by the script."),
        Column("value", _F64, "Value given by the script."),
    ),
    ("rank", "step", "name"),
)

EVENTS = Table(
    "events",
    "What happened beside the numbers: exceptions, mode changes, what the recorder dropped or switched off.",
    (
        _RANK,
        _TIME,
        _STEP,
        _MICROBATCH,
        _PHASE,
        Column(
            "event",
            _STR,
            "Slug: attached, model-found, optimizer-found, exception, rows-dropped, recorder-fault …",
        ),
        Column("module_id", _I32, "Module concerned; null if none."),
        Column("message", _STR, "One sentence."),
        Column("detail", _STR, "More, as a JSON object; null if there is no more."),
    ),
    ("rank", "time_ns"),
)

SYSTEM_SAMPLES = Table(
    "system_samples",
    "What the supervisor saw of the process tree and its limits.",
    (
        _TIME,
        Column("processes", _I32, "Processes in the tree of the script.", "processes"),
        Column("rss_bytes", _I64, "Resident memory of the tree.", "bytes"),
        Column("cpu_percent", _F64, "CPU of the tree since the sample before; 100 is one core.", "%"),
        Column("threads", _I32, "Threads in the tree.", "threads"),
        Column(
            "memory_used_bytes",
            _I64,
            "Memory in use in the control group, or on the host where there is no group limit.",
            "bytes",
        ),
        Column("memory_limit_bytes", _I64, "Limit of the control group, or the host's memory.", "bytes"),
        Column("oom_kills", _I64, "oom_kill counter of the control group; null where it cannot be read.", "kills"),
    ),
    ("time_ns",),
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        RANKS,
        MODULES,
        TENSORS,
        TENSOR_STATS,
        STEPS,
        PARAM_GROUPS,
        BATCHES,
        OPERATORS,
        METRICS,
        EVENTS,
        SYSTEM_SAMPLES,
    )
}
"""All tables by name, in the order of the documentation."""
