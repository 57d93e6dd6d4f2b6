"""Read a text of trace events as columns of profiler_events.

A training repeats itself. So neighbouring keys of an event are taken together as one text, but for keys whose values are new
each time. Only the distinct texts are read as JSON.
"""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from .event_columns import LATEST_US, NUMBERS
from .event_tokens import MARKS, EventTokens, OddEventsError, Places
from .run_texts import RunTexts

_ALWAYS_NEW = (
    "External id",
    "Ev Idx",
    "Sequence number",
    "Addr",
    "Bytes",
    "bytes",
    "Total Allocated",
    "Total Reserved",
    "correlation",
    "Python id",
    "Python parent id",
)
"""Keys of `args` that hardly two events have the same value of."""

_SINGLES = ("ts", "dur", "id", *_ALWAYS_NEW)
"""Keys whose values are read by themselves."""

_OPENED = b" {\n      "
"""How Kineto begins the args of an event."""

_WHOLE = r"^-?[0-9]{1,18}$"
_DECIMAL = r"^-?[0-9]{1,15}(\.[0-9]+)?$"
"""What is read as a number without a doubt."""


def event_arrays(tokens: EventTokens, base_ns: int, outer: RunTexts, inner: RunTexts) -> dict[str, pa.Array]:
    """Columns of profiler_events that the keys of these events fill, each with one value per event. ``outer`` and ``inner`` keep
    what the texts of earlier pieces said, those of events and those within their args.

    Raises:
        OddEventsError: events with a value of another type than expected, with a key twice, or that are no JSON.
    """
    return _Arrays(tokens, base_ns, outer, inner).columns


class _Arrays:
    def __init__(self, tokens: EventTokens, base_ns: int, outer: RunTexts, inner: RunTexts) -> None:
        self._tokens, self._base, self._texts = tokens, base_ns, (outer, inner)
        self.columns: dict[str, pa.Array] = {}
        self._has: dict[str, npt.NDArray[np.bool_]] = {}
        """Column → which events have it so far."""
        self._rest: list[pa.Array] = []
        """What goes to args_json, a part of it per event."""
        single = np.zeros(len(tokens.event), np.bool_)
        inside = self._inside(single)
        self._singles(single, inside)
        self._runs(single, inside)
        if self._rest:
            self.columns["args_json"] = self._others()

    def _inside(self, single: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which keys stand in the args of their event."""
        args = self._tokens.keys.get("args", np.empty(0, np.int32))
        events = self._once(args)
        unusual = ~self._tokens.have_value(args, _OPENED)
        texts = self._tokens.values(args[unusual]).cast(pa.binary()).to_pylist()
        other = np.array([text.translate(None, MARKS) not in {b"{", b"{}"} for text in texts], np.bool_)
        self._none(events[unusual][other])
        single[args] = True
        empty = np.zeros(len(args), np.bool_)
        empty[unusual] = [b"}" in text for text in texts]
        opened = np.full(self._tokens.count, len(single), np.int32)
        opened[events[~empty]] = args[~empty]
        inside = np.arange(len(single), dtype=np.int32) > opened[self._tokens.event]
        behind = self._tokens.behind(args[~empty])
        if len(behind):
            closed = np.full(self._tokens.count, len(single), np.int32)
            closed[self._tokens.event[behind]] = behind
            inside &= np.arange(len(single), dtype=np.int32) < closed[self._tokens.event]
        return inside

    def _once(self, places: Places) -> Places:
        """The events of a key, none of which has it twice."""
        events = self._tokens.event[places]
        self._none(events[1:][np.diff(events) <= 0])
        return events

    def _none(self, odd: npt.NDArray[np.signedinteger]) -> None:
        if len(odd):
            raise OddEventsError(odd)

    # -- keys whose values are new each time ------------------------------------------------------------------------------------

    def _singles(self, single: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_]) -> None:
        for key in _SINGLES:
            places = self._tokens.keys.get(key)
            if places is None:
                continue
            single[places] = True
            events = self._once(places)
            self._none(events[inside[places] != (key in NUMBERS)])
            if key == "ts":
                self._spread("ts_ns", self._nanoseconds(places, events, self._base), events)
            elif key == "dur":
                self._spread("dur_ns", self._nanoseconds(places, events, 0), events)
            elif key == "id":
                numbers = self._numbers(places, events, pa.int64())
                self._none(events[~numbers.is_valid().to_numpy(zero_copy_only=False)])
                self._spread("flow_id", numbers.cast(pa.string()), events)
            else:
                self._spread(NUMBERS[key], self._numbers(places, events, pa.int64()), events)

    def _numbers(self, places: Places, events: Places, kind: pa.DataType) -> pa.Array:
        texts = pc.call_function("ascii_trim", [self._tokens.values(places)], pc.TrimOptions(MARKS.decode()))
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:  # nulls are looked for only then: most pieces have none
            nulls = pc.call_function("equal", [texts, pa.scalar("null")])
            texts = pc.call_function("if_else", [nulls, pa.scalar(None, pa.string()), texts])
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            form = pc.MatchSubstringOptions(_WHOLE if pa.types.is_integer(kind) else _DECIMAL)
            usual = pc.call_function("match_substring_regex", [texts], form).fill_null(True)
            odd = ~usual.to_numpy(zero_copy_only=False).astype(np.bool_)
            raise OddEventsError(events[odd] if odd.any() else events) from None

    def _nanoseconds(self, places: Places, events: Places, base: int) -> pa.Array:
        """Microseconds as whole nanoseconds, to the last digit: a binary fraction of today's moments is off by one."""
        texts = pc.call_function("ascii_trim", [self._tokens.values(places)], pc.TrimOptions(MARKS.decode()))
        try:
            exact = texts.cast(pa.decimal128(28, 3))
        except pa.ArrowInvalid:  # more digits, or no number
            return self._rounded(places, events, base)
        low, high = np.frombuffer(exact.buffers()[1], np.int64).reshape(-1, 2)[exact.offset :][: len(exact)].T
        self._none(events[(high != low >> 63) | (np.abs(low) >= LATEST_US * 1000)])
        return pa.array(base + low)

    def _rounded(self, places: Places, events: Places, base: int) -> pa.Array:
        times = self._numbers(places, events, pa.float64()).to_numpy(zero_copy_only=False)
        self._none(events[~(np.abs(times) < LATEST_US)])
        return pa.array(base + np.rint(times * 1000).astype(np.int64))

    # -- all others -------------------------------------------------------------------------------------------------------------

    def _runs(self, single: npt.NDArray[np.bool_], inside: npt.NDArray[np.bool_]) -> None:
        event = self._tokens.event
        begins = np.ones(len(event), np.bool_)
        begins[1:] = single[1:] | single[:-1] | (event[1:] != event[:-1]) | (inside[1:] != inside[:-1])
        first = np.flatnonzero(begins).astype(np.int32)
        last = np.append(first[1:], np.int32(len(event))) - 1
        for within, said in zip((False, True), self._texts, strict=True):
            these = ~single[first] & (inside[first] == within)
            if these.any():
                self._group(first[these], last[these], said)

    def _group(self, first: Places, last: Places, said: RunTexts) -> None:
        """Runs of neighbouring keys."""
        events = self._tokens.event[first]
        encoded = self._tokens.runs(first, last).dictionary_encode()
        codes = encoded.indices.to_numpy()
        numbers = said.read(encoded.dictionary)
        self._none(events[(numbers < 0)[codes]])
        layers = self._layers(events, codes)
        for column, places, values in said.columns(numbers):
            found = [np.append(places, np.int32(-1))[layer] for layer in layers]
            if column == "args_json":
                self._rest += [values.take(pa.array(at, mask=at < 0)) for at in found]
                continue
            at = found[0]
            for more in found[1:]:
                self._none(np.flatnonzero((at >= 0) & (more >= 0)))
                at = np.maximum(at, more)
            self._put(column, at, values)

    def _layers(self, events: Places, codes: Places) -> list[npt.NDArray[np.intp]]:
        """The codes of an event's runs, one array per event for the first run, for the second and so on; -1 where it has none."""
        layers: list[npt.NDArray[np.intp]] = []
        while len(events):
            now = np.append(True, events[1:] > events[:-1])
            layer = np.full(self._tokens.count, -1, np.intp)
            layer[events[now]] = codes[now]
            layers.append(layer)
            events, codes = events[~now], codes[~now]
        return layers

    # -- columns --------------------------------------------------------------------------------------------------------------

    def _spread(self, column: str, values: pa.Array, events: Places) -> None:
        """A value for each of these events."""
        at = np.full(self._tokens.count, -1, np.int32)
        at[events] = np.arange(len(events), dtype=np.int32)
        self._put(column, at, values)

    def _put(self, column: str, at: Places, values: pa.Array) -> None:
        """For each event the place of its value, -1 where it has none. A column has one key per event: of two keys that share it,
        an event has one."""
        has = at >= 0
        where = pa.array(at, mask=~has)
        spread = (
            pa.DictionaryArray.from_arrays(where, values) if pa.types.is_string(values.type) else values.take(where)
        )
        if column in self.columns:
            self._none(np.flatnonzero(self._has[column] & has))
            spread = pc.call_function("coalesce", [_plain_texts(a) for a in (self.columns[column], spread)])
            has |= self._has[column]
        self.columns[column], self._has[column] = spread, has

    def _others(self) -> pa.Array:
        """What has no column, as one JSON object per event."""
        parts = pl.DataFrame({str(number): part for number, part in enumerate(self._rest)})
        given = pl.any_horizontal(pl.all().is_not_null())
        inner = pl.concat_str(pl.all(), separator=",", ignore_nulls=True)
        text = parts.select(pl.when(given).then(pl.concat_str(pl.lit("{"), inner, pl.lit("}"))).alias("text"))
        return text["text"].to_arrow(compat_level=pl.CompatLevel.oldest())


def _plain_texts(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
