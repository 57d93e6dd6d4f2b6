"""Batches: what the DataLoader gave, what entered the model, and what the loss compared with."""

import ctypes
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ...schemas.files.step_values import Row
from ..script.wrappers import local
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.watch import Part
from ..tensors.frequent_values import frequent_values
from ..tensors.labels_and_masks import label_facts, mask_facts, sample_fingerprints
from ..tensors.measure import measure
from ..tensors.moments import NOT_MEASURED, Moments, measurable
from ..tensors.repeated_rows import few, repeated_rows

_FINGERPRINT_BYTES = 65536
_MOST_HASHED = 200_000
_MOST_FIELDS = 32
_EVALUATIONS = 2
"""Passes of an evaluation that are held against each other: their samples ought to be the same."""


class _Field:
    """A tensor of the current batch: kept as a weak reference, to tell what it is used for."""

    __slots__ = ("moments", "pointer", "ref", "row", "stat", "tensor_id", "version")

    def __init__(self, tensor: Tensor, stat: int, row: Row, tensor_id: int, moments: Moments) -> None:
        self.ref = weakref.ref(tensor)
        self.stat = stat
        self.pointer = _pointer(tensor)
        self.version = _version(tensor)
        self.row = row
        self.tensor_id = tensor_id
        self.moments = moments


class DataWatch(Part):
    """Writes table `batches` and the moments of its tensors."""

    name = "data"
    writes = (
        "batches",
        "tensors:input",
        "tensors:target",
        "tensor_stats:input",
        "tensor_stats:target",
        "steps.epoch",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._fields: list[_Field] = []
        self._flushes = 0
        self._epoch: int | None = None
        self._hashed: dict[int | None, int] = {}
        """Samples of each loader (None: of what comes from none) that have their hash."""
        self._evaluated: dict[tuple[Any, ...], list[int]] = {}
        """Loader and batches of its pass → the first two passes that evaluated."""
        self.few_rows: Counter[int] = Counter()
        """Elements of a row → batches for training with few different rows."""

    def loaded(self, batch: Any, origin: Row) -> None:
        """A DataLoader has handed out a batch; ``origin`` are the columns of `batches` that say from where."""
        before = [f for f in self._current() if f.row.get("loader_id") == origin["loader_id"]]
        if any(f.row["role"] != "field" for f in before):
            before = []
        # where a batch is fetched before the one ahead of it is used, as by accelerate, that one is still to come
        self._fields = [f for f in before if f.row["batch_index"] == origin["batch_index"] - 1]
        self._epoch = origin.get("epoch")
        for name, tensor in tensor_fields(batch):
            if measurable(tensor):
                self._add(f"batch:{name}", name, tensor, "field", "input", Phase.DATA, None, origin)

    def model_input(self, root: ModuleEntry, name: str, tensor: Tensor, phase: Phase, *, new: bool) -> Moments:
        """A tensor enters a model. Returns its moments; one that is in no batch yet is measured only where ``new``."""
        if phase is Phase.FORWARD:
            phase = Phase.DATA
        else:
            self.for_evaluation()
        for field in self._current():
            if field.ref() is tensor:
                if field.version != _version(tensor):
                    self._written_to(field, tensor)
                self._use(field, "input", phase)
                return field.moments
        if not new:
            return NOT_MEASURED
        return self._add(f"input:{name}", name, tensor, "input", "input", phase, root.id).moments

    def for_evaluation(self) -> None:
        """What has been loaded was loaded for an evaluation, also where the script transforms it first."""
        for field in self._current():
            if field.row["role"] == "field":
                self._use(field, "field", Phase.EVAL)

    def target(self, tensor: Tensor, facts: Row) -> tuple[Row, Moments]:
        """A tensor is the target of a loss, which has found out these columns of `batches`. Returns the row and its moments."""
        pointer = _pointer(tensor)
        if self._epoch is not None:
            self.session.step_row.facts["epoch"] = self._epoch
        for field in self._current():
            if field.pointer == pointer and field.ref() is not None:
                if field.version != _version(tensor):
                    self._written_to(field, tensor)
                if "label_counts" not in field.row:
                    facts = {**label_facts(tensor, field.moments), **facts}
                self._use(field, "target", Phase.DATA, facts)
                return field.row, field.moments
        field = self._add("loss:target", "target", tensor, "target", "target", Phase.LOSS, None, facts)
        return field.row, field.moments

    def initial_parameters(self, root: ModuleEntry) -> None:
        """The weights before the first update."""
        for parameter, entry in self.session.catalogue.model_parameters(root):
            mine = local(parameter)
            if mine.numel() and measurable(mine):
                self.session.rows.add_tensor_stats(
                    entry.parameter_id, Phase.FORWARD, measure(mine), requires_grad=parameter.requires_grad
                )

    def lost_parameters(self) -> None:
        """The weights that are not finite before the update of a step whose loss is not: what is lost there was lost before."""
        for parameter, entry in self.session.catalogue.model_parameters():
            mine = local(parameter)
            if mine.numel() and measurable(mine) and (moments := measure(mine)).nonfinite:
                self.session.rows.add_tensor_stats(
                    entry.parameter_id, Phase.LOSS, moments, requires_grad=parameter.requires_grad
                )

    def alive_fields(self) -> dict[str, Tensor]:
        """Tensors of the latest batch that still exist, by field; what is in use before what a loader has fetched ahead."""
        fields = sorted(self._fields, key=lambda field: field.row["role"] != "field")
        return {field.row["field"]: tensor for field in fields if (tensor := field.ref()) is not None}

    def samples(self) -> int | None:
        """How many samples the latest batch of a loader has, as its sampler says."""
        indices = next((f.row["sample_indices"] for f in self._current() if f.row.get("sample_indices")), None)
        return None if indices is None else len(indices)

    def _current(self) -> list[_Field]:
        """Fields whose rows are still in the buffer: what was written belongs to an earlier step."""
        if self._flushes != self.session.position.flushes:
            self._flushes = self.session.position.flushes
            self._fields = []
        return self._fields

    def _use(self, field: _Field, role: str, phase: Phase | None, facts: Row | None = None) -> None:
        """A known field turns out to be the input of a model or the target of a loss."""
        if field.row["role"] == "field":  # a loader may fetch it while the microbatch before is still at work
            field.row["microbatch"] = self.session.position.microbatch
        field.row |= {"role": role, **(facts or {})}
        if phase is not None:
            field.row["phase"] = int(phase)
            self.session.rows.move_stat(field.stat, int(phase))
            if phase is Phase.EVAL:
                self._hash_evaluated(field)
        if role == "target":
            self.session.catalogue.rekind(field.tensor_id, "target")

    def _written_to(self, field: _Field, tensor: Tensor) -> None:
        """The script has changed a field in place since it was measured: what enters the model is what counts."""
        field.version = _version(tensor)
        field.moments = measure(tensor)
        self.session.rows.put_moments(field.stat, field.moments)

    def _add(
        self,
        tensor_name: str,
        name: str,
        tensor: Tensor,
        role: str,
        kind: str,
        phase: Phase,
        module_id: int | None,
        facts: Row | None = None,
    ) -> _Field:
        self._current()
        session = self.session
        moments = measure(tensor)
        tensor_id = session.catalogue.tensor(module_id, tensor_name, kind, tensor)
        stat = session.rows.stat_index()
        seq = session.rows.add_tensor_stats(tensor_id, phase, moments, requires_grad=tensor.requires_grad)
        shape = list(tensor.shape)
        row = session.rows.add(
            "batches",
            seq=seq,
            phase=int(phase),
            field=name,
            role=role,
            tensor_id=tensor_id,
            shape=shape,
            dtype=str(tensor.dtype).removeprefix("torch."),
            batch_size=shape[0] if shape else None,
            fingerprint=fingerprint(tensor),
            **(facts or {}),
        )
        if role == "target" or tensor.dim() == 1:
            row |= label_facts(tensor, moments)
        row |= mask_facts(tensor, moments)
        if role != "target":
            self._hash_samples(tensor, row)
        field = _Field(tensor, stat, row, tensor_id, moments)
        if len(self._fields) >= _MOST_FIELDS:  # a long evaluation without a loader: most of its inputs are gone
            self._fields = [f for f in self._fields if "loader_id" in f.row or f.ref() is not None]
        self._fields.append(field)
        return field

    def _hash_samples(self, tensor: Tensor, row: Row) -> None:
        """Hash the samples of a loader's first epoch, and as many of what comes from no loader."""
        loader = row.get("loader_id")
        if row.get("epoch") or self._hashed.get(loader, 0) >= _MOST_HASHED:
            return
        hashes = sample_fingerprints(tensor)
        if hashes is not None:
            row["sample_fingerprints"] = hashes
            self._hashed[loader] = self._hashed.get(loader, 0) + len(hashes)
            row |= (facts := repeated_rows(tensor, hashes)) | frequent_values(tensor)
            if few(facts, len(hashes)) and row["phase"] == Phase.DATA:
                self.few_rows[tensor.numel() // len(hashes)] += 1

    def _hash_evaluated(self, field: _Field) -> None:
        row, tensor = field.row, field.ref()
        if tensor is None or row.get("sample_indices") is None or "evaluated_fingerprints" in row:
            return
        passes = self._evaluated.setdefault((row["loader_id"], row["loader_batches"]), [])
        if row["epoch"] not in passes:
            if len(passes) == _EVALUATIONS:
                return
            passes.append(row["epoch"])
        row["evaluated_fingerprints"] = row.get("sample_fingerprints") or sample_fingerprints(tensor)


def _pointer(tensor: Tensor) -> tuple[int, int, torch.dtype]:
    # compressed sparse tensors have no storage of their own
    return tensor.data_ptr() if tensor.layout is torch.strided else id(tensor), tensor.numel(), tensor.dtype


def _version(tensor: Tensor) -> int:
    """Counts what was written to a tensor in place; tensors made in inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version


def fingerprint(tensor: Tensor) -> int | None:
    """64-bit checksum (two CRC-32, signed) of shape, dtype and up to 64 KiB of evenly spaced elements; None off the CPU.

    The same tensor gives the same number in every process and on every machine of one byte order. One CRC-32 goes over each half:
    that takes an eighth of the time of a cryptographic hash, and nobody forges batches.
    """
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    kind = zlib.crc32(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
    size = tensor.element_size()
    stride = max(1, tensor.numel() * size // _FINGERPRINT_BYTES)
    if stride > 1 or not tensor.is_contiguous():
        tensor = tensor.detach().reshape(-1)[::stride].contiguous()
    content = memoryview((ctypes.c_ubyte * (tensor.numel() * size)).from_address(tensor.data_ptr()))
    half = len(content) // 2
    both = zlib.crc32(content[:half], kind) << 32 | zlib.crc32(content[half:], kind)
    return both - (1 << 64) if both >> 63 else both


def is_mapping(value: Any) -> bool:
    """Whether it has keys and their values, as a dict and what tokenizers give. An attribute called ``items`` is not enough: in
    fastai it is the data itself."""
    return isinstance(value, dict) or (
        callable(getattr(value, "items", None)) and callable(getattr(value, "keys", None))
    )


def tensor_fields(batch: Any) -> Iterator[tuple[str, Tensor]]:
    """Named tensors of a batch of any nesting, at most 16 of each level."""
    return _fields_of(batch, "")


def _fields_of(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name or "0", value
        return
    if depth == 3:
        return
    items: list[tuple[Any, Any]] = []
    if is_mapping(value):
        items = list(value.items())
    elif isinstance(value, (tuple, list)):
        items = list(enumerate(value))
    for key, item in items[:16]:
        yield from _fields_of(item, f"{name}.{key}" if name else str(key), depth + 1)
