"""How a rank's Python ended: the exception, the module whose forward raised it, and the tensors that were in its hands."""

import faulthandler
import linecache
import os
import traceback
from types import FrameType, TracebackType
from typing import IO, Any

import torch
from torch import Tensor, nn

from ...schemas import ExceptionRecord
from ...schemas.files.json_text import json_bytes
from ...schemas.files.layout import exception_path, native_stack_path
from ..base.stacks_on_demand import answer_with_stacks
from ..script.frames import is_installed, is_script
from ..session.ranks import rank_and_world
from ..session.session import Session

_MOST_FRAMES = 4
_MOST_TENSORS = 16
_native_files: list[IO[bytes]] = []


def record_exception(session: Session, error: BaseException) -> None:
    """Write the exception record of this rank and an event. Called once, when nothing has caught the exception."""
    frames = _frames(error.__traceback__)
    module, call = _module_in_flight(frames)
    entry = session.catalogue.find(module) if module is not None else None
    hide = session.secrets.text
    rank = session.catalogue.rank if session.started else rank_and_world()[0]
    record = ExceptionRecord(
        type=_type_name(error),
        message=hide(str(error)),
        traceback=hide("".join(traceback.format_exception(error))),
        rank=rank,
        step=session.answers.step_of_failure(error.__traceback__) if session.started else None,
        microbatch=session.position.microbatch if session.started else None,
        phase=session.position.phase.name.lower() if session.started else None,
        module=entry.name if entry is not None else None,
        module_class=type(module).__name__ if module is not None else None,
        user_frame=hide(_user_frame(frames) or "") or None,
        inputs=_call_inputs(call) if call is not None else [],
        locals=_local_tensors(frames),
        attributes=_plain_tensors(module) if module is not None else [],
    )
    path = exception_path(session.run, rank, None if session.started else os.getpid())
    path.write_bytes(json_bytes(record))
    session.rows.event(
        "exception",
        f"{record.type}: {record.message}",
        module_id=entry.id if entry is not None else None,
        detail={"user_frame": record.user_frame},
    )


def watch_deaths(session: Session) -> None:
    """Have native crashes and hangs of this process leave their stacks in the run folder."""
    watch_native_crashes(session)
    answer_with_stacks(session.run, session.catalogue.rank)


def watch_native_crashes(session: Session) -> None:
    """Have faulthandler write native crashes into the run folder, unless the script has its own use for it."""
    if faulthandler.is_enabled():
        return
    path = native_stack_path(session.run, session.catalogue.rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("wb", buffering=0)
    _native_files.append(file)  # faulthandler writes to the descriptor: it must stay open
    faulthandler.enable(file)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}.{kind.__qualname__}"
    )


def _frames(tb: TracebackType | None) -> list[tuple[FrameType, int]]:
    frames: list[tuple[FrameType, int]] = []
    while tb is not None:
        frames.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    return frames


def module_in_flight(error: BaseException) -> tuple[nn.Module | None, FrameType | None]:
    """The innermost module that was being called when an exception was raised, and the frame that has its arguments."""
    return _module_in_flight(_frames(error.__traceback__))


def _module_in_flight(frames: list[tuple[FrameType, int]]) -> tuple[nn.Module | None, FrameType | None]:
    """The innermost module that was being called, and the frame of Module._call_impl that has its arguments."""
    for frame, _ in reversed(frames):
        if frame.f_code.co_name == "_call_impl" and frame.f_code.co_filename.endswith("nn/modules/module.py"):
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                return module, frame
    return None, None


def _call_inputs(frame: FrameType) -> list[dict[str, Any]]:
    args, kwargs = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
    named = [(str(i), a) for i, a in enumerate(args)] + [(str(k), v) for k, v in dict(kwargs).items()]
    return [describe_tensor(name, t) for name, t in named if isinstance(t, Tensor)][:_MOST_TENSORS]


def _plain_tensors(module: nn.Module) -> list[dict[str, Any]]:
    """Tensors that a module holds as ordinary attributes: `to` does not move them."""
    held = [(name, value) for name, value in vars(module).items() if isinstance(value, Tensor)]
    return [describe_tensor(name, tensor) for name, tensor in held[:_MOST_TENSORS]]


def _local_tensors(frames: list[tuple[FrameType, int]]) -> list[dict[str, Any]]:
    """Tensors in the innermost frames: what the failing function had in hand, such as `input` and `target` of a loss."""
    found: list[dict[str, Any]] = []
    for frame, _ in reversed(frames[-_MOST_FRAMES:]):
        for name, value in list(frame.f_locals.items()):
            if isinstance(value, Tensor) and len(found) < _MOST_TENSORS:
                found.append(describe_tensor(name, value) | {"function": frame.f_code.co_name})
    return found


def describe_tensor(name: str, tensor: Tensor) -> dict[str, Any]:
    """Shape, dtype, device, and the extremes where they can be had without touching an accelerator that may have failed."""
    about: dict[str, Any] = {
        "name": name,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": str(tensor.device),
        "min": None,
        "max": None,
    }
    if tensor.device.type == "cpu" and tensor.numel() and not tensor.is_complex() and tensor.layout is torch.strided:
        low, high = torch.aminmax(tensor.detach())
        about |= {"min": float(low), "max": float(high)}
    return about


def _user_frame(frames: list[tuple[FrameType, int]]) -> str | None:
    """`file:line in function: source` of the innermost frame that is the user's own code."""
    for frame, line in reversed(frames):
        file = frame.f_code.co_filename
        if is_installed(file) or not is_script(file):
            continue
        source = linecache.getline(file, line).strip()
        return f"{file}:{line} in {frame.f_code.co_name}: {source}"
    return None
