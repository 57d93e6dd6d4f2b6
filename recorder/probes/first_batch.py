"""The first batch as a person looks at it: images as PNG, everything else as its first values."""

import base64
import struct
import zlib
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.probe_report import Picture
from ..loop.batches import is_mapping

_MOST = 8
_LARGEST = 256


def pictures(batch: Any) -> list[Picture]:
    """Every tensor of a batch, at most eight."""
    found: list[Picture] = []
    for name, tensor in _named(batch, ""):
        shown = tensor.detach().cpu()
        picture = Picture(name=name, shape=list(shown.shape), dtype=str(shown.dtype).removeprefix("torch."))
        picture.png = [base64.b64encode(png(image)).decode() for image in _images(shown)]
        picture.text = "" if picture.png else _values(shown)
        found.append(picture)
        if len(found) == _MOST:
            break
    return found


def _named(value: Any, name: str, depth: int = 0) -> list[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        return [(name or "0", value)]
    if depth == 3:
        return []
    items = (
        list(value.items()) if is_mapping(value) else list(enumerate(value)) if isinstance(value, list | tuple) else []
    )
    return [found for key, item in items for found in _named(item, f"{name}.{key}" if name else str(key), depth + 1)]


def _images(x: Tensor) -> list[Tensor]:
    """Tensors (N, 1 or 3, H, W) or (N, H, W) with sides from 8 to 256, as bytes (H, W, channels) from their own range."""
    if (
        x.is_complex()
        or x.dtype is torch.bool
        or x.dim() not in {3, 4}
        or not 8 <= min(x.shape[-2:]) <= max(x.shape[-2:]) <= _LARGEST
    ):
        return []
    if x.dim() == 3 and (x.shape[-1] != x.shape[-2]):
        return []
    if x.dim() == 4 and x.shape[1] not in {1, 3}:
        return []
    images: list[Tensor] = []
    for image in x[:_MOST].float().nan_to_num():
        low, high = image.min(), image.max()
        scaled = ((image - low) / (high - low).clamp_min(1e-12) * 255).to(torch.uint8)
        images.append(scaled.unsqueeze(-1) if scaled.dim() == 2 else scaled.permute(1, 2, 0))
    return images


def png(image: Tensor) -> bytes:
    """A PNG of bytes (height, width, 1 or 3), as RFC 2083 has it."""
    height, width, channels = image.shape
    rows = b"".join(b"\0" + bytes(row.reshape(-1).tolist()) for row in image)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def _values(x: Tensor) -> str:
    flat = x.reshape(-1)[:16].tolist()
    words = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in flat]
    return " ".join(words) + (" …" if x.numel() > 16 else "")
