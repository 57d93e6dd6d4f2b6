"""What happened at each optimizer step, to optimizers and schedules."""

from ..columns import Column, Table
from ..shared_columns import BOOL, F64, I32, I64, LIST, RANK, STEP, STR, TIME

STEPS = Table(
    "steps",
    "One row per optimizer step (per optimizer, where several step in one iteration).",
    (
        RANK,
        STEP,
        Column("optimizer_id", I32, "Optimizer that stepped; null when the iteration ended without an optimizer step."),
        TIME,
        Column("completed", BOOL, "True when optimizer.step() had returned, or the iteration had otherwise ended."),
        Column("stepped", BOOL, "True when optimizer.step() ran."),
        Column("skipped_by_scaler", BOOL, "True when a GradScaler found non-finite gradients and left the step out."),
        Column("microbatches", I32, "Backward passes in this row.", "passes"),
        Column("loss", F64, "Mean of the losses on which backward was called, before loss scaling."),
        Column(
            "grad_norm",
            F64,
            "L2 norm of all gradients as the optimizer saw them, over all shards; null if there were none, or unknown.",
        ),
        Column(
            "clip_norm", F64, "Total norm that clip_grad_norm_ found before it clipped; null when it was not called."
        ),
        Column("clip_max_norm", F64, "max_norm given to clip_grad_norm_."),
        Column("clip_numel", I64, "Elements of the gradients that clip_grad_norm_ was given.", "elements"),
        Column("clip_scaled", BOOL, "True when clipping saw gradients still multiplied by the loss scale."),
        Column("clip_value", F64, "clip_value given to clip_grad_value_; null when it was not called."),
        Column(
            "carried_grad_norm",
            F64,
            "Norm of the gradients that were there when the first backward of the step began.",
        ),
        Column("loss_scale", F64, "Current scale of the GradScaler; null without a scaler."),
        Column(
            "calls",
            STR,
            "What the script called since the row before, one letter each: z zero_grad, f training forward, b backward, "
            "u unscale_, c clip_grad_norm_ or clip_grad_value_, s optimizer.step, l scheduler step, g GradScaler.update. "
            "Cut after 64 letters.",
        ),
        Column("zero_grads", I32, "zero_grad calls since the row before.", "calls"),
        Column("scheduler_steps", I32, "step() calls of learning rate schedulers since the row before.", "calls"),
        Column("autocast", STR, "dtype of autocast in the last training forward; null where it was off."),
        Column("retain_graph", BOOL, "Whether a backward since the row before was told to keep its graph."),
        Column("training", BOOL, "Mode of the model in its last forward of the step."),
        Column(
            "eval_forwards",
            I32,
            "Forward passes of a model without gradients or in eval mode since the row before.",
            "passes",
        ),
        Column(
            "eval_grad_forwards",
            I32,
            "Forward passes of a model in eval mode that built a graph, but not one for gradients of its inputs.",
            "passes",
        ),
        Column(
            "epoch", I32, "Iterations begun over the loader of the training batches, from 0; null without a loader."
        ),
        Column("step_ns", I64, "Time since the row before.", "ns"),
        Column("data_wait_ns", I64, "Time waiting for the DataLoader.", "ns"),
        Column(
            "head_ns",
            I64,
            "Time from the row before to the first training forward: loading, evaluating, logging, all that happens there.",
            "ns",
        ),
        Column("forward_ns", I64, "Time inside the outermost module calls.", "ns"),
        Column("backward_ns", I64, "Time inside backward().", "ns"),
        Column("optimizer_ns", I64, "Time inside optimizer.step().", "ns"),
        Column("recorder_ns", I64, "Time the recorder itself took, part of the times above.", "ns"),
        Column("journal_bytes", I64, "Bytes appended to the journal for the row before.", "bytes"),
        Column("rss_bytes", I64, "Resident memory of the process at the end of the step.", "bytes"),
        Column(
            "host_reads",
            I32,
            "Numbers that the script's own code read out of tensors (item, tolist, if t:) since the row before; null where"
            " they were not counted.",
            "reads",
        ),
        Column(
            "debug_modes",
            STR,
            "Debug modes of torch that were on, such as anomaly detection; null without any.",
        ),
        Column("open_files", I32, "Descriptors that the process holds open, counted now and then.", "descriptors"),
        Column("graphs_alive", I32, "Losses of earlier steps whose autograd graph still exists.", "graphs"),
        Column("outputs_alive", I32, "Outputs of the model in earlier steps whose memory is still held.", "tensors"),
        Column("outputs_alive_bytes", I64, "That memory.", "bytes"),
        Column(
            "output_graphs_alive",
            I32,
            "Outputs of the model in earlier steps whose autograd graph still exists.",
            "graphs",
        ),
        Column(
            "forward_graphs_alive",
            I32,
            "Training forwards of earlier steps of whose autograd graph the beginning still exists; null where no module's "
            "outputs were measured.",
            "graphs",
        ),
        Column("live_tensors", I64, "Tensors that Python knows, where they were counted in this step.", "tensors"),
        Column("live_tensor_bytes", I64, "Memory that they hold, each storage counted once.", "bytes"),
        Column("anonymous_bytes", I64, "Resident memory that is not part of a file, at the end of the step.", "bytes"),
        Column("cuda_allocated_bytes", I64, "Device memory in tensors at the end of the step.", "bytes"),
        Column("cuda_reserved_bytes", I64, "Device memory held by the allocator.", "bytes"),
        Column("cuda_peak_bytes", I64, "Most device memory in tensors so far.", "bytes"),
        Column("rng", I64, "Hash of torch's CPU random state at the end of the step."),
        Column(
            "detail", STR, "Costly kinds that were not measured in this step, separated by blanks; empty: all were."
        ),
    ),
    ("rank", "step", "optimizer_id"),
)


NORM_PARTS = Table(
    "norm_parts",
    "What a rank's gradients add to a norm of table steps, where some of them are sharded. The view steps joins the parts.",
    (
        RANK,
        STEP,
        Column("optimizer_id", I32, "That of the row of steps."),
        Column("norm", STR, "Column of steps: grad_norm, clip_norm or carried_grad_norm."),
        Column("ranks", LIST, "Ranks whose parts add up; this one alone for what is not sharded.", "ranks"),
        Column("part", F64, "L2 norm of this rank's part; null where ranks hold summands, whose norms do not add up."),
    ),
    ("rank", "step", "optimizer_id", "norm", "ranks"),
)


PARAM_GROUPS = Table(
    "param_groups",
    "Hyper-parameters of every parameter group at every step.",
    (
        RANK,
        STEP,
        Column("optimizer_id", I32, "Number of the optimizer in this rank."),
        Column("group_id", I32, "Index in optimizer.param_groups."),
        Column("optimizer", STR, "Class of the optimizer."),
        Column("lr", F64, "Learning rate used in this step."),
        Column("weight_decay", F64, "Weight decay of the group; null if it has none."),
        Column("momentum", F64, "momentum, or beta1; null if it has none."),
        Column("beta2", F64, "beta2; null if it has none."),
        Column("eps", F64, "eps; null if it has none."),
        Column("settings", STR, "All other settings of the group and its initial_lr, as JSON object."),
        Column(
            "state_step", F64, "Step counter in the optimizer's state after the step; null if it keeps none.", "steps"
        ),
        Column("parameters", I32, "Parameters in the group.", "tensors"),
        Column("stray", I32, "Of these, parameters that belong to no module that was ever called.", "tensors"),
        Column("numel", I64, "Elements in the group.", "elements"),
        Column(
            "update_norm",
            F64,
            "L2 norm of the change of the group's weights in this step, estimated from the measured sample.",
        ),
        Column("weight_norm", F64, "L2 norm of the group's weights after this step, estimated from the same sample."),
    ),
    ("rank", "step", "optimizer_id", "group_id"),
)


SCHEDULERS = Table(
    "schedulers",
    "One row per learning rate scheduler at every optimizer step.",
    (
        RANK,
        STEP,
        Column("scheduler_id", I32, "Number of the scheduler in this rank."),
        Column("optimizer_id", I32, "Optimizer whose learning rate it sets."),
        Column("scheduler", STR, "Class of the scheduler."),
        Column("steps", I32, "step() calls since the row before, by the script.", "calls"),
        Column("total_steps", I64, "step() calls so far in this process, by the script.", "calls"),
        Column("last_epoch", I64, "Its own counter."),
        Column("before_optimizer", BOOL, "True when it stepped before the optimizer's first step."),
        Column("lr", F64, "Learning rate it set last, of the first group."),
        Column(
            "settings",
            STR,
            "Its public attributes that are numbers or short strings, as JSON object; of one on a metric as they were after "
            "its last step, and metric, which it was given. warmup and planned are lengths in steps that its names, or those its "
            "function reads, tell.",
        ),
    ),
    ("rank", "step", "scheduler_id"),
)


UNWATCHED_STEPS = Table(
    "unwatched_steps",
    "Completed steps that have no row in steps: of a small model, most between two that are watched. One row for one or a few.",
    (
        RANK,
        Column("step", I64, "The last of these steps.", "steps"),
        TIME,
        Column("steps", I64, "Steps that this row stands for.", "steps"),
        Column("loss", F64, "Loss on which backward was called in the last of them; null where it was not read."),
    ),
    ("rank", "step"),
)
