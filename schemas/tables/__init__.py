"""Every table of a run folder, each declared once with a sentence and a unit for each column.

Null always means "not measured", never zero. Time order inside a step is ``(rank, step, microbatch, seq)``.
"""

from ..columns import Table
from .batches import BATCHES
from .captures import CAPTURED_STEPS, REPLAYS
from .checkpoints import CHECKPOINTS, COPIES, EMBEDDINGS
from .collectives import COLLECTIVES, DDP_TIMES, PROCESS_GROUPS
from .events import EVENTS, METRICS
from .host_reads import HOST_READS
from .loss_terms import LOSS_TERMS
from .memory import FRAMES, MEMORY_BLOCKS, MEMORY_EVENTS, MEMORY_OWNERS, MEMORY_SEGMENTS
from .model import MODULE_MODES, MODULES, RANKS, TENSORS
from .operators import OPERATORS
from .probes import LIVE_TENSORS, PROBES
from .profiler_events import PROFILED_OPERATORS, PROFILER_EVENTS
from .recording import RECORDER_STATS, SYSTEM_SAMPLES, THINNED
from .steps import NORM_PARTS, PARAM_GROUPS, SCHEDULERS, STEPS, UNWATCHED_STEPS
from .target_lookups import TARGET_LOOKUPS
from .tensor_stats import TENSOR_STATS

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        RANKS,
        MODULES,
        TENSORS,
        TENSOR_STATS,
        STEPS,
        UNWATCHED_STEPS,
        NORM_PARTS,
        PARAM_GROUPS,
        BATCHES,
        OPERATORS,
        LOSS_TERMS,
        TARGET_LOOKUPS,
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
