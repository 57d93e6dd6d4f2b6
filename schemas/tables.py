"""Every table of a run folder, each declared once with a sentence and a unit for each column.

Null always means "not measured", never zero. Time order inside a step is ``(rank, step, microbatch, seq)``.
"""

from .captures import CAPTURED_STEPS, REPLAYS
from .columns import Table
from .counts import LIVE_TENSORS, PROBES
from .happenings import EVENTS, METRICS, RECORDER_STATS, SYSTEM_SAMPLES, THINNED
from .identity import MODULE_MODES, MODULES, RANKS, TENSORS
from .measurements import BATCHES, OPERATORS, TENSOR_STATS
from .memory import FRAMES, MEMORY_BLOCKS, MEMORY_EVENTS, MEMORY_OWNERS, MEMORY_SEGMENTS
from .processes import COLLECTIVES, DDP_TIMES, PROCESS_GROUPS
from .profile import PROFILED_OPERATORS, PROFILER_EVENTS
from .progress import NORM_PARTS, PARAM_GROUPS, SCHEDULERS, STEPS
from .timing import HOST_READS
from .weights import CHECKPOINTS, COPIES, EMBEDDINGS

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        RANKS,
        MODULES,
        TENSORS,
        TENSOR_STATS,
        STEPS,
        NORM_PARTS,
        PARAM_GROUPS,
        BATCHES,
        OPERATORS,
        SCHEDULERS,
        MODULE_MODES,
        EMBEDDINGS,
        COPIES,
        CHECKPOINTS,
        PROBES,
        LIVE_TENSORS,
        MEMORY_OWNERS,
        MEMORY_BLOCKS,
        MEMORY_EVENTS,
        MEMORY_SEGMENTS,
        FRAMES,
        HOST_READS,
        METRICS,
        EVENTS,
        CAPTURED_STEPS,
        REPLAYS,
        COLLECTIVES,
        DDP_TIMES,
        PROCESS_GROUPS,
        PROFILER_EVENTS,
        PROFILED_OPERATORS,
        SYSTEM_SAMPLES,
        RECORDER_STATS,
        THINNED,
    )
}
"""All tables by name, in the order of the documentation."""
