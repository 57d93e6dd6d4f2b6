"""The Python API: the same recording for scripts and notebooks that want to start it themselves, or to say more.

    with Recorder("runs/first", model=model, config={"lr": lr}) as rec:
        for batch in loader:
            ...
            rec.step(loss=loss)

Under ``firstfault run`` the process is recorded already: a Recorder then adds its names to that recording.
"""

import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..schemas import ExitRecord, write_json
from ..schemas.files.integrity import write_checksums
from ..schemas.files.layout import EXIT_JSON
from . import attach
from .attachment import Attachment
from .base.errors import CompactionError, RecorderError
from .base.option_parsing import OPTIONS, resolve
from .base.options import as_json
from .base.terminal import warn
from .storage.housekeeping import Housekeeping
from .storage.run_folder import create_run
from .supervisor.exit_record import last_positions, read_exceptions

_COMPACT_EVERY_S = 10.0


class Recorder:
    """Records everything between ``with`` and its end.

    ``out`` is a new or empty folder (default: below ``firstfault-runs/``); ``model`` a module or a dict of named modules,
    numbered before they are called; ``optimizer`` one or several, noted before they step; ``config`` goes into run.json;
    ``options`` are those of ``firstfault run`` (budget="3%", every=20, exclude=["blocks.*"] …) over the settings file's.
    Raises RecorderError if the folder or an option cannot be used. Recording can be entered once.
    """

    def __init__(
        self,
        out: str | Path | None = None,
        *,
        model: nn.Module | dict[str, nn.Module] | None = None,
        optimizer: torch.optim.Optimizer | list[torch.optim.Optimizer] | None = None,
        config: dict[str, Any] | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        self._out = Path(out) if out is not None else None
        self._models = {"model": model} if isinstance(model, nn.Module) else model or {}
        self._optimizers = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else optimizer or []
        self._config = config
        self._name = name
        unknown = sorted(set(options) - {key.replace("-", "_") for key in OPTIONS})
        if unknown:
            raise RecorderError(f"there is no option {unknown[0]!r}; known are {', '.join(OPTIONS)}")
        self._options = {key.replace("_", "-"): value for key, value in options.items()}
        self._attachment: Attachment | None = None
        self._own = False
        self._house: Housekeeping | None = None
        self._seen_flushes = 0
        self._stop = threading.Event()
        self._compactor: threading.Thread | None = None
        self.path: Path | None = None
        """The run folder, once recording has begun."""

    def __enter__(self) -> Self:
        if self._attachment is not None:
            raise RecorderError("this Recorder has been used already; make a new one for another run")
        existing = attach.current()
        if existing is not None:
            self._attachment = existing
            self.path = existing.session.run
        else:
            argv = [sys.executable, *sys.argv]
            script = sys.argv[0] if sys.argv and sys.argv[0] else "-"
            self.path = create_run(
                self._out,
                argv=argv,
                script=script,
                name=self._name,
                supervised=False,
                config=self._config,
                options=as_json(resolve(self._options, [Path(script).parent, Path()])),
            )
            self._attachment = attach.attach(self.path)
            self._own = True
            self._house = Housekeeping(self.path)
            self._compactor = threading.Thread(target=self._compact, name="firstfault-compaction", daemon=True)
            self._compactor.start()
        for name, model in self._models.items():
            self._attachment.forward.expect(model, name)
        for optimizer in self._optimizers:
            self._attachment.optimizers.tracked(optimizer)
        return self

    def step(self, loss: Tensor | float | None = None, **metrics: Tensor | float) -> None:
        """Say that an iteration is over.

        Needed only where no torch optimizer steps; elsewhere it adds ``loss`` and other numbers under their names to the
        step that has just ended.
        """
        attachment = self._require()
        values = metrics if loss is None else {"loss": loss, **metrics}
        session = attachment.session
        ended = session.position.flushes != self._seen_flushes
        if not ended:
            attachment.optimizers.end_iteration()
        self._log(values, session.position.step - 1)
        self._seen_flushes = session.position.flushes

    def log(self, **metrics: Tensor | float) -> None:
        """Add numbers under their names to the current step."""
        self._log(metrics, self._require().session.position.step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        attachment = self._require()
        if not self._own or self.path is None:
            return
        if error is not None and not isinstance(error, SystemExit):
            attachment.exception(error)
        attach.detach()
        self._stop.set()
        if self._compactor is not None:
            self._compactor.join()
        exceptions = read_exceptions(self.path)
        code = error.code if isinstance(error, SystemExit) else None
        try:
            write_json(
                self.path / EXIT_JSON,
                ExitRecord(
                    status="exception" if exceptions else "completed",
                    exit_code=code if isinstance(code, int) else None,
                    ended_ns=time.time_ns(),
                    exception=exceptions[0] if exceptions else None,
                    last_positions=last_positions(self.path),
                    recorded_ranks=1,
                ),
            )
            assert self._house is not None  # noqa: S101 - made when recording began
            self._house.finish()
            write_checksums(self.path)
        except (OSError, CompactionError) as e:
            warn("close", f"{self.path}: {e}; what was recorded can be read all the same")

    def _log(self, values: dict[str, Tensor | float], step: int) -> None:
        session = self._require().session
        for name, value in values.items():
            number = value.detach().item() if isinstance(value, Tensor) else value
            session.guard.guarded("metrics", session.rows.metric)(name, float(number), max(step, 0))

    def _require(self) -> Attachment:
        if self._attachment is None:
            raise RecorderError("the Recorder is not running; use it in a `with` statement")
        return self._attachment

    def _compact(self) -> None:
        assert self._house is not None  # noqa: S101 - made before this thread
        while not self._stop.wait(_COMPACT_EVERY_S):
            try:
                self._house.look()
            except (OSError, CompactionError) as e:
                warn("compaction", f"{e}; the journal is kept and can be read")
                return
