"""Turn the collectives of an execution trace into rows of collectives.

Each call has a node `record_param_comms`. The last of its values are, in this order: the number of the call in its group, the
group and its description, the rank (the root of a broadcast), the function, two lists of splits. The first rank, the stride and
the size of the group follow.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .flight_calls import BETWEEN_TWO, DTYPES, OPS, group_of, natural

NODE = "record_param_comms"

_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_BETWEEN = ("send", "recv")
_NO_CALLS = ("wait", "init", "init_process_group", "barrier")
"""What a node stands for that is no call of its own: a barrier is recorded again as the all_reduce that it makes."""
_END = 9
"""Values from the number of the call on."""
_ELEMENTS = 3
"""Place of the number of elements in what stands for a tensor."""
_MOST_RANKS = 1 << 20


class _Call(NamedTuple):
    op: str
    number: int
    p2p: bool
    pair: list[Any]
    rank: int | None
    members: list[int]
    numel: int | None
    dtype: str | None


def rank_of(nodes: Iterable[Mapping[str, Any]]) -> int | None:
    """The rank that made these calls, as its calls in the group of all ranks tell; None without any."""
    for call in _calls(nodes):
        if str(call.pair[1]) == "default_pg" and call.op not in _ROOTED and call.rank is not None:
            return call.rank
    return None


def call_rows(nodes: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The columns of collectives that each call tells, but for the rank."""
    for order, call in enumerate(_calls(nodes)):
        if len(call.members) == 1:
            continue
        group = group_of(call.pair, {str(call.pair[0]): call.members})
        yield {
            "seq": order,
            "time_ns": 0,
            "group": group + BETWEEN_TWO if call.p2p else group,
            "number": order if call.p2p else call.number,
            "op": call.op,
            "peer": call.rank if call.op in _ROOTED else None,
            "dtype": call.dtype,
            "numel": call.numel,
        }


def _calls(nodes: Iterable[Mapping[str, Any]]) -> Iterator[_Call]:
    for node in nodes:
        if node.get("name") != NODE:
            continue
        given = node.get("inputs")
        values, types = (
            (given.get("values"), given.get("types"))
            if isinstance(given, Mapping)
            else (given, node.get("input_types"))
        )
        call = _call(values, types) if isinstance(values, list) and len(values) >= _END else None
        if call is not None:
            yield call


def _call(values: list[Any], types: Any) -> _Call | None:
    told, pair, rank, name, _, _, first, stride, size = values[-_END:]
    p2p = isinstance(told, list) and len(told) > 1 and told[1] is True
    number = natural(told[0] if isinstance(told, list) and told else told)
    if (
        number is None
        or not isinstance(name, str)
        or name in _NO_CALLS
        or not (isinstance(pair, list) and len(pair) > 1)
    ):
        return None
    first, stride, size = natural(first), natural(stride), natural(size)
    members: list[int] = []
    if first is not None and stride and size and first + stride * size <= _MOST_RANKS:
        members = list(range(first, first + stride * size, stride))
    op = OPS.get(name.lower(), name.lower())
    given = values[0] if len(values) > _END else None
    return _Call(op, number, p2p or op in _BETWEEN, pair, natural(rank), members, _numel(given), _dtype(types))


def _numel(given: Any) -> int | None:
    """Elements of all tensors that a call was given."""
    tensors = given if isinstance(given, list) else []
    counts = [natural(t[_ELEMENTS]) if isinstance(t, list) and len(t) > _ELEMENTS else None for t in tensors]
    return None if not counts or None in counts else sum(count or 0 for count in counts)


def _dtype(types: Any) -> str | None:
    """The type of the tensors, as in `GenericList[Tensor(float)]`."""
    text = str(types[0]) if isinstance(types, list) and types else ""
    inner = text.partition("Tensor(")[2].partition(")")[0].lower()
    return DTYPES.get(inner.removeprefix("c10::"), inner) or None
