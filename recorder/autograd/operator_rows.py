"""Rows of table `operators`: a value that an operator was given or has made, looked at where it can explain a lost one."""

from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ..session.session import Session
from ..tensors.measure import measure


def write_operator(session: Session, value: Tensor, trigger: str, **columns: Any) -> None:
    """One row: the moments of a value, the rows of a mask, and the columns given."""
    value = value.detach()
    moments = measure(value, count_zeros=value.is_floating_point() and value.numel() <= 1 << 20)
    rows = full = None
    if value.dim() >= 2:
        if value.dtype is torch.bool:
            rows, full = value.numel() // value.shape[-1], int(value.all(-1).sum())
        elif moments.nonfinite:
            rows = value.numel() // value.shape[-1]
            full = int((value.isnan() if moments.nan_count else value == -torch.inf).all(-1).sum())
    session.rows.add(
        "operators",
        seq=session.position.next_seq(),
        phase=int(Phase.BACKWARD if trigger == "risk" else session.position.phase),
        trigger=trigger,
        dtype=str(value.dtype).removeprefix("torch."),
        shape=list(value.shape),
        numel=moments.numel,
        nan_count=moments.nan_count,
        inf_count=moments.inf_count,
        zero_count=moments.zero_count,
        min=moments.min,
        max=moments.max,
        rows=rows,
        full_rows=full,
        **columns,
    )
