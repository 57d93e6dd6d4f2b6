"""The parts of the recorder, joined to torch and to one another, and taken out again."""

import contextlib
import sys
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

import torch

from ..schemas import Phase
from .autograd.compiled_graphs import CompiledGraphs
from .base.process_notes import withdraw_note
from .capture.captures import CaptureWatch
from .capture.exceptions import record_exception, watch_deaths
from .capture.failure_step import AfterStep
from .capture.reentry import Reentry
from .capture.snapshots import Snapshots
from .loop.backward import BackwardWatch
from .loop.batches import DataWatch
from .loop.clipping_and_scaling import ClippingWatch
from .loop.dataloaders import LoaderWatch
from .loop.forward import ForwardWatch
from .loop.lr_schedulers import ScheduleWatch
from .loop.manual_updates import OwnUpdates
from .loop.optimizers import OptimizerWatch
from .loop.unwatched_steps import UnwatchedSteps
from .memory.aliased_buffers import AliasedBuffers
from .memory.carried_buffers import CarriedBuffers
from .memory.cuda_history import CudaMemory
from .memory.graphs_let_go import GraphsLetGo
from .memory.growth import GrowthWatch
from .memory.growth_in_evaluations import EvalGrowth
from .memory.held_outputs import HeldActivations, HeldOutputs
from .memory.retained_graphs import GraphsAlive
from .memory.tensor_census import LiveTensors
from .session.patches import Patches
from .session.session import Session
from .session.watch import Part, in_order
from .watches.attention_and_spread import AttentionProbe, FeatureSpread
from .watches.axes_followed import AxesWatch
from .watches.batchnorm_recalibration import RecalibrationWatch
from .watches.buffers import BufferWatch
from .watches.changed_datasets import ChangedDatasets
from .watches.checkpoints import CheckpointWatch
from .watches.child_processes import ChildrenWatch
from .watches.class_numbers import ClassNumbers
from .watches.collectives import CollectiveWatch
from .watches.debug_modes import DebugModes
from .watches.embedding_rows import EmbeddingWatch
from .watches.end_after import EndAfter
from .watches.evals_before_training import EarlyEvals
from .watches.evaluated_losses import EvaluatedLosses
from .watches.gradients_astray import GradientsAstrayWatch
from .watches.graph_edges import GraphEdgesWatch
from .watches.hook_counts import HookCounts
from .watches.host_reads import HostReads
from .watches.loader_names import LoaderNames
from .watches.logged_metrics import MetricsWatch
from .watches.loss_direction import LossDirection
from .watches.loss_terms import LossTermsWatch
from .watches.lost_outside_graph import LostOutsideGraph
from .watches.mask_fills import MaskFillsWatch
from .watches.measuring_way import MeasuringWay
from .watches.misread_options import OptionWatch
from .watches.model_copies import CopyWatch
from .watches.model_structure import StructureWatch
from .watches.one_way_losses import OneWayLosses
from .watches.open_files import OpenFiles
from .watches.optimizer_state import OptimizerStateWatch
from .watches.padding import TokenPadding
from .watches.paired_listings import PairedListingsWatch
from .watches.positions import PositionsWatch
from .watches.profiler_windows import ProfilerWatch
from .watches.random_evaluations import RandomEvaluations
from .watches.recurrent_states import RecurrentStatesWatch
from .watches.reentrant_checkpointing import ReentrantWatch
from .watches.replica_times import ReplicaTimes
from .watches.scaled_gradients import ScaledGradients
from .watches.seeds import RandomWatch
from .watches.set_aside import SetAsideWatch
from .watches.source_slips import SourceSlipsWatch
from .watches.stale_weights import StaleWeights
from .watches.stale_workers import StaleWorkers
from .watches.target_lookups import TargetLookupsWatch
from .watches.tied_weights import TieWatch
from .watches.torch_threads import ThreadWatch
from .watches.unheld_leaves import UnheldLeaves
from .watches.uninitialised_parameters import UninitialisedParameters
from .watches.unread_splits import UnreadSplits
from .watches.warnings_and_compiles import CompilationWatch, WarningWatch
from .watches.worker_randomness import WorkerRandomness


class Attachment:
    """A session joined to torch. Original functions are always called exactly once, whatever the recorder does around them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.data = DataWatch(session)
        self.optimizers = OptimizerWatch(session)
        self.loaders = LoaderWatch(session, self.data, self.optimizers)
        graphs = CompiledGraphs(session)
        self.forward = ForwardWatch(session, self.data, graphs, self.optimizers.before_forward)
        self.backward = BackwardWatch(session, self.forward, self.data, self.optimizers, graphs)
        self.schedules = ScheduleWatch(session, self.optimizers)
        self.unwatched = UnwatchedSteps(session, self.forward, self.backward, self.optimizers)
        self.parts = in_order([*self._loop(graphs), *self._watches(graphs)], session.options.without)
        self._patches = Patches()
        self._seen_exception: BaseException | None = None
        for part in self.parts:
            part.listen(session.signals)
        session.signals.recording_began.connect("deaths", lambda: watch_deaths(session))
        self.attach()
        session.rows.event("attached", f"recording with torch {torch.__version__}")

    def _loop(self, graphs: CompiledGraphs) -> list[Part]:
        """What makes a training step; always there."""
        session, optimizers = self.session, self.optimizers
        return [
            self.data,
            self.forward,
            optimizers,
            self.backward,
            self.unwatched,
            graphs,
            ClippingWatch(session, optimizers, self.backward.scaled),
            self.schedules,
            self.loaders,
            OwnUpdates(session, self.backward, optimizers),
        ]

    def _watches(self, graphs: CompiledGraphs) -> list[Part]:
        """Independent listeners. To add one, add a line; its place does not matter."""
        session, data, optimizers = self.session, self.data, self.optimizers
        padding = TokenPadding(session, data.alive_fields)
        outputs, activations, cuda = HeldOutputs(session), HeldActivations(session), CudaMemory(session)
        return [
            AfterStep(session),
            EmbeddingWatch(session, padding, self.backward),
            RecurrentStatesWatch(session),
            PositionsWatch(session, data),
            AliasedBuffers(session, data),
            SetAsideWatch(session),
            CaptureWatch(session, data, graphs, optimizers.alive),
            Snapshots(session, optimizers.alive, self.schedules.alive),
            Reentry(session, optimizers, self.schedules.alive),
            RandomWatch(session),
            StructureWatch(session),
            SourceSlipsWatch(session),
            GraphEdgesWatch(session),
            GradientsAstrayWatch(session),
            MaskFillsWatch(session),
            BufferWatch(session),
            GraphsAlive(session),
            CarriedBuffers(session),
            OptimizerStateWatch(session, optimizers),
            WarningWatch(session),
            CompilationWatch(session),
            MetricsWatch(session),
            OptionWatch(session),
            PairedListingsWatch(session),
            ChildrenWatch(session, self.exception, self.interrupted, self.close),
            RecalibrationWatch(session, self.forward),
            CheckpointWatch(session, optimizers),
            CopyWatch(session),
            LossTermsWatch(session, optimizers),
            LossDirection(session, data),
            OneWayLosses(session, optimizers),
            TargetLookupsWatch(session),
            TieWatch(session),
            ChangedDatasets(session, self.loaders),
            ClassNumbers(session, self.loaders),
            LoaderNames(session, self.loaders),
            UnreadSplits(session, self.loaders),
            UninitialisedParameters(session),
            WorkerRandomness(session, self.loaders),
            StaleWorkers(session, self.loaders),
            DebugModes(session),
            OpenFiles(session),
            MeasuringWay(session),
            outputs,
            activations,
            cuda,
            LiveTensors(session),
            GrowthWatch(session, data, optimizers.alive, outputs, activations, cuda),
            EvalGrowth(session, data, optimizers.alive),
            GraphsLetGo(session),
            UnheldLeaves(session),
            HookCounts(session),
            ScaledGradients(session),
            LostOutsideGraph(session),
            CollectiveWatch(session),
            ReplicaTimes(session),
            AxesWatch(session, data, self.forward),
            FeatureSpread(session),
            AttentionProbe(session, self.forward, padding),
            StaleWeights(session),
            ReentrantWatch(session, self.forward),
            EarlyEvals(session),
            EvaluatedLosses(session),
            RandomEvaluations(session),
            HostReads(session, self.forward),
            ThreadWatch(session),
            ProfilerWatch(session, self.forward),
            EndAfter(session),
        ]

    def attach(self) -> None:
        """Put everything into torch; nothing happens if it is in already."""
        if self._patches:
            return
        for part in self.parts:
            part.install(self._patches)
        self._patches.around(sys, "excepthook", before=lambda _kind, error, _trace: self.exception(error))

    def detach(self) -> None:
        """Take everything out of torch again; first back in what is out for the length of a forward."""
        self.forward.quiet.resume()
        self.unwatched.end()
        self._patches.undo()

    def close(self) -> None:
        """The script is at its end: write what is left, then detach."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and self.session.guard.alive:
            self.exception(error)
        self.unwatched.end()
        self.session.guard.guarded("close", self.optimizers.close)(completed=self._seen_exception is None)
        if self._seen_exception is None and self.session.guard.alive:
            self.session.position.leave_breadcrumb(Phase.EXIT, -1)  # tells a rank that is done from one that was lost
        self.session.close()
        self.detach()
        if parent_process() is not None and not self.session.started and not self.session.guard.faults:
            withdraw_note(self.session.run)

    def interrupted(self, error: BaseException) -> None:
        """Somebody ended this process: neither an error of its own nor the end of its work."""
        self._seen_exception = error

    def exception(self, error: BaseException) -> None:
        """Record an exception that nothing has caught, once."""
        if self._seen_exception is not error:
            self._seen_exception = error
            self.unwatched.end()
            self._to_its_end(self.session.guard.guarded("exception", record_exception), self.session, error)
            for listener in self.session.signals.exception.listeners:
                self._to_its_end(listener, error)

    def _to_its_end(self, record: Callable[..., None], *arguments: Any) -> None:
        """Once more where the handler of a signal broke in: the exception that ends the script is recorded whatever follows."""
        try:
            record(*arguments)
        except Exception:  # noqa: BLE001 — of a signal handler; the script is ending with an exception of its own
            with contextlib.suppress(Exception):
                record(*arguments)
