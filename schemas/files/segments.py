"""The one reader of journal segments: an Arrow stream without an end mark, which a kill may have cut anywhere."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Segment:
    """What can be read of a segment. ``schema`` is None where not even that can; ``torn_bytes`` follow the last complete append,
    and ``torn`` says what Arrow made of them, None where the segment ends between two appends."""

    schema: pa.Schema | None
    batches: list[pa.RecordBatch]
    torn_bytes: int
    torn: str | None

    def table(self, otherwise: pa.Schema) -> pa.Table:
        """All rows; ``otherwise`` is the schema where the segment has none."""
        return pa.Table.from_batches(self.batches, self.schema or otherwise)


def read_appends(raw: bytes, accept: Callable[[pa.Schema], bool] | None = None) -> Segment:
    """Every complete append of a segment. Nothing but the schema is read where ``accept`` refuses it."""
    batches: list[pa.RecordBatch] = []
    schema: pa.Schema | None = None
    torn: str | None = None
    good = 0
    source = pa.BufferReader(pa.py_buffer(raw))
    try:
        stream = pa.ipc.open_stream(source)
        schema = stream.schema
        good = source.tell()
        accepted = accept is None or accept(schema)
        while accepted:
            batches.append(stream.read_next_batch())
            good = source.tell()
    except StopIteration:
        pass  # whole, or cut exactly between two appends
    except (OSError, pa.ArrowException) as e:
        torn = (str(e).splitlines() or [type(e).__name__])[0]
    return Segment(schema, batches, max(0, len(raw) - good), torn)
