"""Tensors in a file, in the format of the safetensors library: a length, a JSON header, raw bytes. Nothing is pickled."""

import ctypes
import json
import math
import os
from pathlib import Path

import torch
from torch import Tensor

from ...schemas.files.snapshot import read_header

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""What the format calls them; others are not written."""

_TYPES = {name: dtype for dtype, name in DTYPES.items()}


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> int:
    """Write contiguous tensors of the CPU, whole or not at all. Returns the bytes of the file.

    The interpreter is free while the bytes are written, so that a thread may do it beside a training.
    """
    # the widest first: each then begins at a multiple of its size
    names = sorted(tensors, key=lambda n: (-tensors[n].element_size(), n))
    header: dict[str, object] = {"__metadata__": metadata}
    at = 0
    for name in names:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(len(head).to_bytes(8, "little") + head)
            for name in names:
                tensor = tensors[name]
                size = tensor.numel() * tensor.element_size()
                if size:
                    file.write(memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())))
        os.replace(temporary, path)  # noqa: PTH105 — in a thread at the end of the interpreter
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return 8 + len(head) + at


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and its metadata. Raises ValueError or OSError."""
    header, begin = read_header(path)
    size = path.stat().st_size - begin
    metadata = header.pop("__metadata__", {})
    with path.open("rb") as file:
        file.seek(begin)
        data = bytearray(file.read(size))
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        dtype, shape = _TYPES[entry["dtype"]], [int(n) for n in entry["shape"]]
        low, high = entry["data_offsets"]
        count = math.prod(shape)
        if not 0 <= low <= high <= size or high - low != count * dtype.itemsize:
            raise ValueError(f"{path}: {name} does not lie within the file")
        tensors[name] = (
            torch.frombuffer(data, dtype=dtype, count=count, offset=low).reshape(shape).clone()
            if count
            else torch.empty(shape, dtype=dtype)
        )
    return tensors, metadata
