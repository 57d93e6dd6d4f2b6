"""Events of a profiler: of a window that firstfault recorded, or of a trace file that was imported."""

from ..columns import Column, Table
from ..shared_columns import I8, I32, I64, RANK, STR

PROFILER_EVENTS = Table(
    "profiler_events",
    "One row per event of a profiler trace, in the order of the trace. Nothing that the trace says of it is left out.",
    (
        RANK,
        Column("step", I64, "Step during which it began, by the ProfilerStep# annotations; null outside them."),
        Column("window_id", I32, "Window of profiling, or trace file, from 0."),
        Column("event_id", I64, "Position in the window."),
        Column(
            "ph",
            STR,
            "Phase of the trace format: X complete, i instant, s t f flow, M metadata, B E begin and end, C counter …",
        ),
        Column(
            "cat",
            STR,
            "cpu_op, user_annotation, python_function, cuda_runtime, kernel, gpu_memcpy, cpu_instant_event …; of our own windows "
            "also module (a module's forward), optimizer (a step) and recorder (what firstfault itself does there).",
        ),
        Column("name", STR, "Name of the event, such as aten::mm or that of a kernel."),
        Column("pid", STR, "Process it ran in; of device events the device."),
        Column("tid", STR, "Thread it ran in; of device events the stream."),
        Column(
            "ts_ns", I64, "When it began; of a trace that does not tell its clock's start, since that.", "ns since 1970"
        ),
        Column("dur_ns", I64, "How long it took; null for events that have no length.", "ns"),
        Column(
            "self_ns",
            I64,
            "The same without the events inside it on its thread; null for an imported trace.",
            "ns",
        ),
        Column(
            "module_id",
            I32,
            "Module in whose forward it ran, or of a backward operator the forward's; null outside modules.",
        ),
        Column(
            "source",
            STR,
            "Innermost function of the script's own code it was called in, as file(line of the def): name; of our own windows "
            "with stacks, else null.",
        ),
        Column(
            "phase",
            I8,
            "forward (inside a module), backward or optimizer; null elsewhere and for an imported trace.",
            "enum Phase",
        ),
        Column(
            "flow_id", STR, "Number that ties the ends of a flow, or begin and end of an asynchronous event, together."
        ),
        Column(
            "scope",
            STR,
            "Of an instant: t thread, p process, g global. Of a flow's end: e, bound to the event around it.",
        ),
        Column("device", I64, "Device it ran on; of a memory event, the device of the memory, -1 for the host."),
        Column("device_type", I64, "Of a memory event, c10's number of the kind of device: 0 CPU, 1 CUDA."),
        Column("stream", I64, "Stream it ran on."),
        Column("correlation", I64, "Number that ties a launch to what it launched."),
        Column("external_id", I64, "Number that ties runtime and device events to the operator round them."),
        Column("record_function_id", I64, "Number that ties operators to an execution trace; 0 without one."),
        Column("index", I64, "Position in the profiler's own list (Ev Idx)."),
        Column("seq_nr", I64, "Sequence number that ties a backward operator to its forward."),
        Column("fwd_tid", I64, "Thread of that forward, by autograd's number; 0 in the forward."),
        Column("python_id", I64, "Number of a call of a Python function."),
        Column("python_parent_id", I64, "Number of the call that it was made in."),
        Column("python_module_id", I64, "Number of the nn.Module instance whose call it is."),
        Column("input_dims", STR, "Shapes of its inputs, as JSON."),
        Column("input_types", STR, "Types of its inputs, as JSON."),
        Column("input_strides", STR, "Strides of its inputs, as JSON."),
        Column("concrete_inputs", STR, "Values of its inputs that are no tensors, as JSON."),
        Column("bytes", I64, "Memory allocated, negative where freed; bytes of a copy.", "bytes"),
        Column("addr", I64, "Address of that memory."),
        Column("total_allocated", I64, "Memory allocated on the device afterwards.", "bytes"),
        Column("total_reserved", I64, "Memory that the allocator holds afterwards.", "bytes"),
        Column(
            "args_json", STR, "Everything else that the trace says of it, as JSON object; null if there is no more."
        ),
    ),
    ("rank", "window_id", "event_id"),
)

PROFILED_OPERATORS = Table(
    "profiled_operators",
    "Operators of an imported trace, summed over each step; of our own windows the events themselves tell as much.",
    (
        RANK,
        Column("window_id", I32, "Trace file, from 0."),
        Column("step", I64, "Step during which they began; null outside of steps."),
        Column("name", STR, "Name of the operator, such as aten::mm."),
        Column(
            "module", STR, "Modules in whose forward they ran, from the outermost; null without stacks in the trace."
        ),
        Column("phase", I8, "forward (inside a module), backward or optimizer; null elsewhere.", "enum Phase"),
        Column("calls", I64, "Calls in the step."),
        Column("self_ns", I64, "Their time without the operators inside them.", "ns"),
    ),
    ("rank", "window_id", "step", "name", "module", "phase"),
)
