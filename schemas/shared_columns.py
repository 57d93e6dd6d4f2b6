"""Types and columns that several tables share."""

from typing import Final

from .columns import Column

I8: Final = "int8"
I32: Final = "int32"
I64: Final = "int64"
F64: Final = "double"
BOOL: Final = "bool"
STR: Final = "string"
LIST: Final = "list<int64>"
F64_LIST: Final = "list<double>"

RANK = Column("rank", I32, "Process of the run, as torch.distributed numbers it; 0 in a single-process run.")
STEP = Column("step", I64, "Optimizer step, counted from 0; an iteration whose step was skipped or missing counts too.")
MICROBATCH = Column("microbatch", I32, "Backward passes already done in this step when the row was captured.")
SEQ = Column("seq", I32, "Order of capture inside the step.")
PHASE = Column("phase", I8, "Where in the step the row was captured.", "enum Phase")
TIME = Column("time_ns", I64, "Wall clock.", "ns since 1970")
