"""Everything that is put into torch, in one place: what is wrapped, what is hooked, and how it comes out again."""

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable
from multiprocessing import parent_process
from types import TracebackType
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules import module as nn_module

from ..schemas import Phase
from .autograd.compiled_graphs import CompiledGraphs
from .base.process_notes import withdraw_note
from .capture.captures import CaptureWatch
from .capture.exceptions import record_exception, watch_deaths
from .capture.failure_step import AfterStep
from .loop.backward import BackwardWatch
from .loop.batches import DataWatch
from .loop.clipping_and_scaling import ClippingWatch
from .loop.dataloaders import LoaderWatch
from .loop.forward import ForwardWatch
from .loop.lr_schedulers import ScheduleWatch
from .loop.manual_updates import OwnUpdates
from .loop.optimizers import OptimizerWatch
from .loop.unwatched_steps import UnwatchedSteps
from .memory.cuda_history import CudaMemory
from .memory.growth import GrowthWatch
from .memory.held_outputs import HeldActivations, HeldOutputs
from .memory.retained_graphs import GraphsAlive
from .memory.tensor_census import LiveTensors
from .session.patches import Patches, Watch
from .session.session import Session
from .watches.attention_and_spread import AttentionProbe, FeatureSpread
from .watches.batchnorm_recalibration import RecalibrationWatch
from .watches.checkpoints import CheckpointWatch
from .watches.child_processes import ChildrenWatch
from .watches.collectives import CollectiveWatch
from .watches.debug_modes import DebugModes
from .watches.embedding_rows import EmbeddingWatch
from .watches.end_after import EndAfter
from .watches.eval_losses import EvalLosses
from .watches.evals_before_training import EarlyEvals
from .watches.hook_counts import HookCounts
from .watches.host_reads import HostReads
from .watches.logged_metrics import MetricsWatch
from .watches.model_copies import CopyWatch
from .watches.model_structure import StructureWatch
from .watches.open_files import OpenFiles
from .watches.optimizer_state import OptimizerStateWatch
from .watches.padding import TokenPadding
from .watches.profiler_windows import ProfilerWatch
from .watches.random_evaluations import RandomEvaluations
from .watches.reentrant_checkpointing import ReentrantWatch
from .watches.seeds import RandomWatch
from .watches.stale_weights import StaleWeights
from .watches.tied_weights import TieWatch
from .watches.torch_threads import ThreadWatch
from .watches.warnings_and_compiles import CompilationWatch, WarningWatch


class Attachment:
    """A session joined to torch. Original functions are always called exactly once, whatever the recorder does around them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.data = DataWatch(session)
        self.optimizers = OptimizerWatch(session)
        graphs = CompiledGraphs(session)
        self.forward = ForwardWatch(session, self.data, graphs, self.optimizers.before_forward)
        self.backward = BackwardWatch(session, self.forward, self.data, self.optimizers, graphs)
        self.unwatched = UnwatchedSteps(session, self.forward, self.backward, self.optimizers)
        self.captures = CaptureWatch(session, self.data, graphs, self.optimizers.alive)
        padding = TokenPadding(session, self.data.alive_fields)
        self.backward.padding_in = session.guarded("embeddings", padding.in_targets)
        embeddings = EmbeddingWatch(session, padding)
        self.watches: list[Watch] = [
            AfterStep(session, self.optimizers),
            embeddings,
            self.captures,
            ClippingWatch(session, self.optimizers, self.backward.scaled),
            ScheduleWatch(session, self.optimizers),
            RandomWatch(session),
            StructureWatch(session),
            GraphsAlive(session),
            LoaderWatch(session, self.data, self.optimizers),
            OptimizerStateWatch(session, self.optimizers),
            WarningWatch(session),
            CompilationWatch(session),
            graphs,
            MetricsWatch(session),
            ChildrenWatch(self.exception, self.interrupted, self.close),
            RecalibrationWatch(session),
            CheckpointWatch(session, self.optimizers),
            CopyWatch(session),
            TieWatch(session),
            DebugModes(session),
            OpenFiles(session),
            held_outputs := HeldOutputs(session),
            held_activations := HeldActivations(session),
            LiveTensors(session),
            cuda_memory := CudaMemory(session),
            growth := GrowthWatch(
                session, self.data, self.optimizers.alive, held_outputs, held_activations, cuda_memory
            ),
            HookCounts(session),
            CollectiveWatch(session),
            FeatureSpread(session),
            AttentionProbe(session, self.forward, padding),
            StaleWeights(session),
            ReentrantWatch(session, self.forward),
            EarlyEvals(session),
            RandomEvaluations(session),
            HostReads(session, self.forward, EvalLosses(session)),
            ThreadWatch(session),
            OwnUpdates(session, self.backward, self.optimizers),
            ProfilerWatch(session, self.forward),
            EndAfter(session),
            self.forward.quiet,
            self.unwatched,
        ]
        self.growth = growth
        self._patches = Patches()
        self._seen_exception: BaseException | None = None
        session.on_start = lambda: watch_deaths(session)
        self.attach()
        session.event("attached", f"recording with torch {torch.__version__}")

    def attach(self) -> None:
        """Put everything into torch; nothing happens if it is in already."""
        if self._patches:
            return
        self._hook_modules()
        self._hook_optimizers()
        self._wrap_backward()
        self._wrap_excepthook()
        for watch in self.watches:
            watch.install(self._patches)

    def detach(self) -> None:
        """Take everything out of torch again; first back in what is out for the length of a forward."""
        self.forward.quiet.resume()
        self.unwatched.end()
        self._patches.undo()

    def close(self) -> None:
        """The script is at its end: write what is left, then detach."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and self.session.alive:
            self.exception(error)
        self.unwatched.end()
        self.session.guarded("close", self.optimizers.close)(completed=self._seen_exception is None)
        if self._seen_exception is None and self.session.alive:
            self.session.note(Phase.EXIT, -1)  # tells a rank that is done from one that was lost
        self.session.close()
        self.detach()
        if parent_process() is not None and not self.session.started and not self.session.faults:
            withdraw_note(self.session.run)

    def interrupted(self, error: BaseException) -> None:
        """Somebody ended this process: neither an error of its own nor the end of its work."""
        self._seen_exception = error

    def exception(self, error: BaseException) -> None:
        """Record an exception that nothing has caught, once."""
        if self._seen_exception is not error:
            self._seen_exception = error
            self.unwatched.end()
            self._to_its_end(self.session.guarded("exception", record_exception), self.session, error)
            self._to_its_end(self.session.guarded("memory-growth", self.growth.exception), error)
            self._to_its_end(self.session.guarded("captures", self.captures.exception), error)

    def _to_its_end(self, record: Callable[..., None], *arguments: Any) -> None:
        """Once more where the handler of a signal broke in: the exception that ends the script is recorded whatever follows."""
        try:
            record(*arguments)
        except Exception:  # noqa: BLE001 — of a signal handler; the script is ending with an exception of its own
            with contextlib.suppress(Exception):
                record(*arguments)

    # -- what is put in -----------------------------------------------------------------------------------------------------

    def _hook_modules(self) -> None:
        # said because of our hooks, and an error where the script turns warnings into errors
        warnings.filterwarnings("ignore", message="Using `torch.compile.* when there are global hooks")
        guarded = self.session.guarded
        before, after = self.forward.hooks()
        handles = [
            nn_module.register_module_module_registration_hook(guarded("modules", self.session.catalogue.note_parent)),
            nn_module.register_module_parameter_registration_hook(
                guarded("modules", self.session.catalogue.note_parameter)
            ),
        ]
        self._patches.handles(handles)
        self._patches.hook_modules(before, after)

    def _hook_optimizers(self) -> None:
        guarded, watch = self.session.guarded, self.optimizers
        self.unwatched.hook_steps(
            self._patches, guarded("optimizer", watch.before_step), guarded("optimizer", watch.after_step)
        )
        session = self.session
        found, cleared = guarded("optimizer", watch.found), guarded("optimizer", watch.cleared)

        def wrap_init(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                found(self)

            return init

        def wrap_optimizer_zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
                if not session.unwatched:
                    cleared(self)
                return original(self, *args, **kwargs)

            return zero_grad

        def wrap_module_zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
                cleared(None)
                return original(self, *args, **kwargs)

            return zero_grad

        self._patches.wrap(torch.optim.Optimizer, "__init__", wrap_init)
        self._patches.wrap(torch.optim.Optimizer, "zero_grad", wrap_optimizer_zero_grad, rests=True)
        self._patches.wrap(torch.nn.Module, "zero_grad", wrap_module_zero_grad, rests=True)

    def _wrap_backward(self) -> None:
        session = self.session
        before, after = (
            session.guarded("backward", self.backward.before),
            session.guarded("backward", self.backward.after),
        )

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def backward(*args: Any, **kwargs: Any) -> Any:
                retain = bool(kwargs.get("retain_graph") or (len(args) > 2 and args[2]))
                mine = before(args[0] if args else kwargs.get("tensors"), retain_graph=retain)
                returned = False
                try:
                    result = original(*args, **kwargs)
                    returned = True
                    return result
                finally:
                    if mine:
                        after(returned=returned)

            return backward

        plain = torch.autograd.backward
        self._patches.wrap(torch.autograd, "backward", wrap)
        self.unwatched.may_rest(plain, torch.autograd.backward)

        def wrap_enter(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def enter(self: Any) -> Any:
                if not is_compiling():  # checkpointing inside compiled code leaves no hook on what is saved
                    session.saved_tensor_hooks_used = True
                return original(self)

            return enter

        self._patches.wrap(torch.autograd.graph.saved_tensors_hooks, "__enter__", wrap_enter)

    def _wrap_excepthook(self) -> None:
        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
                self.exception(error)
                original(kind, error, trace)

            return excepthook

        self._patches.wrap(sys, "excepthook", wrap)
