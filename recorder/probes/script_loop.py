"""Drives probes by the training loop of an unmodified script.

The script runs until its loop is known: which module is called first and last, which optimizers step in which order, which
DataLoader feeds it. From then on each iteration of its loop is a trial: the first batch comes out of the loader again, weights,
optimizer states and random states are put back, and what a trial changes is changed. The script's own code makes forward, loss
and backward. Nothing is written to checkpoints meanwhile, and the process ends when the last probe has its result.
"""

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.optim.optimizer as optim
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.optim import lr_scheduler
from torch.utils.data import dataloader

from ...schemas.files.probe_report import ProbePlan, ProbeReport, ProbeResult, write_report
from ...schemas.files.secrets import Redactor
from ..script.call_arguments import keyword_arguments
from ..script.frames import script_frame
from ..script.wrappers import unwrapped
from ..session.patches import Patches
from .bench import PROBES
from .checkpoints_aside import CheckpointsAside
from .ends_learnt import Targets
from .first_batch import pictures
from .flat_terms import flat_terms
from .gradients import custom_function, padding_rows
from .kernels import repeatable_kernels
from .learning import STEPS
from .listed_names import ListedNames
from .padding_inside import Lookups
from .random_states import random_states
from .readings import READINGS
from .run_length import RunLength
from .schedules import simulate
from .set_overlap import NAME as SETS_APART
from .set_overlap import judge as judge_sets
from .stage import Stage, Start, replaced, tensors_of
from .trial import Probe, Seen, Setting, Trial, untried
from .unwritten_checkpoints import UnwrittenCheckpoints
from .used_tokenizers import folder_beside
from .used_tokenizers import judge as judge_tokenizer

_MOST_FUNCTIONS = 8
_MOST_DATASETS = 2

_FEWEST = 12
"""Iterations of a probe that trains, however slow they are: fewer show no trend."""

_PATIENCE = 1.2
"""Times the seconds given, from the first forward on, after which the process ends whatever it does: a script that steps no
optimizer of torch, an evaluation of all its data between two iterations."""

_LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "soft_margin_loss",
    "multi_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
)
"""Functions of torch.nn.functional whose second argument is the target; the loss modules call them too."""


class ScriptLoop:
    """The loop of one process: first looked at, then driven."""

    def __init__(self, plan: ProbePlan) -> None:
        self.plan = plan
        self.folder = Path(plan.folder)
        self.report = ProbeReport(ended="no-training")
        self._secrets = Redactor.of_this_process(keep=False)
        self.patches = Patches()
        self.began = time.monotonic()
        self.start: Start | None = None
        self.stage: Stage | None = None
        self.setting: Setting | None = None
        self.todo = [name for name in plan.probes if name in PROBES]
        self.current: tuple[str, Probe] | None = None
        self.models: list[nn.Module] = []
        """Modules that were called with gradients and by no other, in the order of their first calls."""
        self.order: list[torch.optim.Optimizer] = []
        """Optimizers in the order of their steps, of one round."""
        self.depth = 0
        self.ignored: set[int] = set()
        """Targets that a loss was told to ignore."""
        self.targets = Targets()
        self.lookups = Lookups()
        self.listed = ListedNames()
        self.iterator: Any = None
        """The iterator of a DataLoader that has handed out a batch last before the model was first called."""
        self.first_of: dict[int, tuple[Any, Any]] = {}
        """id of an iterator → itself and a copy of its first batch."""
        self.first: Any = None
        """The batch that every trial gets; None where it does not come from a DataLoader."""
        self.entered: list[Tensor] = []
        """Copies of what entered the models at their first calls."""
        self.functions: dict[type[Any], tuple[Any, ...]] = {}
        self.schedulers: list[Any] = []
        self.length = RunLength()
        self.datasets: list[Any] = []
        """Those that were read again before their first batch."""
        self._last_iterator: Any = None
        self._driven_since = 0.0
        self._in_backward = False
        self._over = False
        self._kernels = contextlib.ExitStack()
        self._ending = threading.Lock()

    # -- putting it in ----------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Put the hooks in."""
        if hidden := self.plan.values.get("hidden"):  # a start from scratch, as the one that saved them
            CheckpointsAside(None, hidden).install(self.patches)
        self.patches.handles(
            [
                nn_module.register_module_forward_pre_hook(self._before_forward),
                nn_module.register_module_forward_hook(self._after_forward, always_call=True),
                optim.register_optimizer_step_pre_hook(self._before_step),
                optim.register_optimizer_step_post_hook(self._after_step),
            ]
        )
        self.patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._wrap_next)
        self.patches.wrap(torch.autograd, "backward", self._wrap_backward)
        UnwrittenCheckpoints().install(self.patches)
        for kind in (
            lr_scheduler.LRScheduler,
            lr_scheduler.ChainedScheduler,
            lr_scheduler.SequentialLR,
            lr_scheduler.ReduceLROnPlateau,
        ):
            self.patches.wrap(kind, "__init__", self._wrap_scheduler)  # the latter three call no other
        self.listed.install(self.patches)
        for name in _LOSSES:
            self.patches.wrap(torch.nn.functional, name, self._wrap_loss)
        self._note_functions()
        atexit.register(self._script_ended)

    def _note_functions(self) -> None:
        original = torch.autograd.Function.__dict__["apply"].__func__
        loop = self

        def apply(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
            known = cls.__module__.partition(".")[0]
            if (
                known not in {"torch", "firstfault"}
                and cls not in loop.functions
                and len(loop.functions) < _MOST_FUNCTIONS
            ):
                wanted = [isinstance(a, Tensor) and a.requires_grad for a in args]
                if any(wanted) and not kwargs and loop.stage is None:
                    copies = tuple(
                        a.detach().clone().requires_grad_(w) if isinstance(a, Tensor) else a
                        for a, w in zip(args, wanted, strict=True)
                    )
                    loop.functions[cls] = copies
            return original(cls, *args, **kwargs)

        self.patches.put(torch.autograd.Function, "apply", classmethod(apply))

    # -- what the script does ---------------------------------------------------------------------------------------------

    def _before_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self.stage is not None or self._over or self._in_backward or not torch.is_grad_enabled():
            return
        self.lookups.note(module, args)
        self.depth += 1
        if self.depth > 1:
            return
        inner = unwrapped(module)
        if not any(p.requires_grad for p in inner.parameters()):
            return
        if self.start is None:
            self.start = Start([], [])
            self.iterator = self._last_iterator
            clock = threading.Timer(_PATIENCE * self.plan.seconds, self._out_of_time)
            clock.daemon = True
            clock.start()
        if all(m is not inner for m in self.models):
            self.models.append(inner)
            self.start.add_model(inner)
            self.entered += [t.detach().clone() for t in tensors_of((args, keyword_arguments()))]

    def _after_forward(self, *_: Any) -> None:
        if self.stage is None and torch.is_grad_enabled() and not self._in_backward:
            self.depth = max(0, self.depth - 1)

    def _wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def following(iterator: Any) -> Any:
            stage = self.stage
            if stage is None:
                self._read_again(iterator)
                batch = original(iterator)
                if id(iterator) not in self.first_of:
                    self.first_of[id(iterator)] = iterator, replaced(batch, lambda t: t.detach().clone())
                self._last_iterator = iterator
                return batch
            if not torch.is_grad_enabled() or self.first is None or not self._is_main(iterator):
                stage.seen.other_batches += torch.is_grad_enabled()
                return original(iterator)
            if stage.trial.stream:
                with contextlib.suppress(StopIteration):
                    return original(iterator)
            batch = replaced(self.first, lambda t: t.detach().clone())
            if stage.trial.batch is not None:
                stage.trial.batch(tensors_of(batch))
            return batch

        return following

    def _read_again(self, iterator: Any) -> None:
        """Before anything is read: what is divided in place at each reading is soon zero, and no other one from then on."""
        dataset = getattr(iterator, "_dataset", None)
        fresh = dataset is not None and all(d is not dataset for d in self.datasets)
        if not fresh or len(self.datasets) == _MOST_DATASETS:
            return
        self.datasets.append(dataset)
        size = getattr(getattr(iterator, "_index_sampler", None), "batch_size", None)
        for name, judge in READINGS.items():
            self._judge(name, functools.partial(judge, dataset, size))

    def _judge(self, name: str, looks: Callable[[], ProbeResult | None]) -> None:
        """Add the result of a look that takes no trial."""
        if name not in self.plan.probes:
            return
        try:
            found = looks()
        except Exception as e:  # noqa: BLE001 — one probe's failure is not the others'
            found = untried(name, "probe-raised", error=f"{type(e).__name__}: {e}"[:200])
        if found is not None:
            self._add_result(found)

    def _is_main(self, iterator: Any) -> bool:
        return getattr(iterator, "_dataset", None) is getattr(self.iterator, "_dataset", self)

    def _wrap_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self.depth, self._in_backward = 0, True
            try:
                result = original(*args, **kwargs)
            finally:
                self._in_backward = False
            if self.stage is not None:
                tensors = args[0] if args else kwargs.get("tensors")
                first = tensors if isinstance(tensors, Tensor) else next(iter(tensors or ()), None)
                if isinstance(first, Tensor) and first.numel() == 1:
                    self.stage.lost(float(first.detach()))
                    if self.stage.trial.look_at_terms:
                        self.stage.seen.flat_terms += flat_terms(first, script_frame(sys._getframe(1)))
            return result

        return backward

    def _wrap_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def loss(*args: Any, **kwargs: Any) -> Any:
            if isinstance(number := kwargs.get("ignore_index"), int):
                self.ignored.add(number)
            if self.stage is None or not torch.is_grad_enabled():
                if self.stage is None and original.__name__ in {"cross_entropy", "nll_loss"}:
                    self.targets.watch(args, kwargs)
                return original(*args, **kwargs)
            if "target" in kwargs and isinstance(kwargs["target"], Tensor):
                kwargs["target"] = self.stage.edit_target(kwargs["target"])
            elif len(args) > 1 and isinstance(args[1], Tensor):
                args = (args[0], self.stage.edit_target(args[1]), *args[2:])
            return original(*args, **kwargs)

        return loss

    def _wrap_scheduler(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def init(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            original(scheduler, *args, **kwargs)
            if len(self.schedulers) < 16 and all(s is not scheduler for s in self.schedulers):
                self.schedulers.append(scheduler)
                self.length.made(scheduler, sys._getframe(1))

        return init

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.depth = 0
        if self._over:
            return
        if self.stage is not None:
            self.stage.before_step(optimizer)
        elif self.start is not None and optimizer not in self.order:
            self.start.add_optimizer(optimizer)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._over:
            return
        if self.stage is None:
            self._find_loop(optimizer)
        elif optimizer is self.order[-1]:
            self._iteration_ended()

    # -- from looking to driving ------------------------------------------------------------------------------------------

    def _find_loop(self, optimizer: torch.optim.Optimizer) -> None:
        """The loop is known once an optimizer steps for the second time, or a single one after its first step."""
        self.length.look(sys._getframe(1))
        if optimizer not in self.order:
            self.order.append(optimizer)
        elif optimizer is self.order[-1]:
            if self.start is not None and self.models:
                self._take_over()
            else:
                self._judge_without_module()

    def _take_over(self) -> None:
        start = self.start
        assert start is not None  # noqa: S101 — asked before
        held = {id(p) for o in self.order for g in o.param_groups for p in g["params"]}
        models = [m for m in self.models if any(id(p) in held for p in m.parameters())] or self.models
        # a part that the script has called by itself is not what its data enter
        models = [m for m in models if not any(m is not o and m in set(o.modules()) for o in models)]
        start.random = random_states(sys._getframe())
        named: dict[int, tuple[str, Tensor]] = {}
        for model in models:
            for name, parameter in model.named_parameters():
                if id(parameter) in held and parameter.requires_grad:
                    named.setdefault(id(parameter), (name, parameter))
        for o in self.order:
            for g, group in enumerate(o.param_groups):
                for i, p in enumerate(group["params"]):
                    named.setdefault(id(p), (f"param_groups[{g}][{i}]", p))
        rates = [_rate(o) for o in self.order]
        self.setting = setting = Setting([n for n, _ in named.values()], [p for _, p in named.values()], max(rates))
        setting.optimizers = len(self.order)
        setting.one_model = models[0] is models[-1]
        setting.total_steps = self.plan.values.get("total_steps")
        setting.padding_rows = padding_rows(models, setting.parameters)
        self._choose_batch(setting)
        self._kernels.enter_context(repeatable_kernels())
        self.stage = Stage(models[0], models[-1], setting.parameters, self.order, start)
        self.stage.same_batch = self.first is None
        setting.from_loader = self.first is not None
        shown = self.first if self.first is not None else {f"input {i}": t for i, t in enumerate(self.entered)}
        self.report.first_batch = pictures(shown)
        self._driven_since = time.monotonic()
        frame, data = sys._getframe(), self.iterator if self.first is not None else None
        self._judge(SETS_APART, lambda: judge_sets(data, self.entered, frame))
        self._judge_functions()
        setting.planned_steps = self._judge_length()
        self._judge_schedules()
        if "tokenizer" in self.plan.probes:
            folder = self.plan.values.get("tokenizer") or folder_beside(models)
            first = self.report.first_batch
            for found in judge_tokenizer(
                folder,
                tensors_of(shown),
                first,
                models,
                self.ignored,
                self.entered,
                self.targets,
                self.lookups,
                self.listed,
            ):
                self._add_result(found)
        self._following()

    def _judge_without_module(self) -> None:
        """What trains is called by no hook: no trial can be made, but the loops and schedules can be read."""
        self.iterator = self._last_iterator
        self._judge_length()
        self._judge_schedules()
        self._end("no-module")

    def _judge_length(self) -> int | None:
        """Add how many steps the loops make, where nobody has said it; returns that number."""
        self.length.whole = len(self.order) == 1
        if "run-length" not in self.plan.probes or "total_steps" in self.plan.values:
            return None
        self._add_result(told := self.length.told())
        return told.values.get("steps")

    def _choose_batch(self, setting: Setting) -> None:
        """The first batch of the loader that fed the first call of the model; without a loader it is made again each time."""
        _, self.first = self.first_of.get(id(self.iterator), (None, None))
        if self.first is None:
            return
        setting.batch = fields = tensors_of(self.first)
        sizes = {t.shape[0] for t in fields if t.dim()}
        collate = getattr(self.iterator, "_collate_fn", None)
        usual = getattr(collate, "__module__", "").startswith("torch.utils.data")
        if usual and len(sizes) == 1:
            setting.batch_size = sizes.pop()

    def _judge_functions(self) -> None:
        for function, arguments in self.functions.items():
            if "gradcheck" in self.plan.probes:
                self._add_result(found := custom_function(function, arguments))
                if self.setting is not None and found.code in {"straight-through", "gradient-scaled"}:
                    self.setting.own_gradients = True

    def _judge_schedules(self) -> None:
        if "schedule" not in self.plan.probes:
            return
        inner = {id(s) for outer in self.schedulers for s in getattr(outer, "_schedulers", [])}
        outer = [s for s in self.schedulers if id(s) not in inner]
        for scheduler in self.schedulers[:4]:
            if id(scheduler) not in inner and getattr(scheduler, "optimizer", None) in self.order:
                values, epoch = self.plan.values, None
                with contextlib.suppress(Exception):  # of a dataset without a length
                    epoch = len(self.iterator)
                by_step = bool(values.get("schedule_by_step"))
                steps, found = values.get("schedule_steps"), None
                if steps is None and len(outer) == 1 and not values.get("came_to_its_end"):
                    found = self.length.simulated(scheduler, sys._getframe(1), by_step=by_step)
                self._add_result(found or simulate(scheduler, steps, by_step=by_step, epoch=epoch))

    # -- trials -----------------------------------------------------------------------------------------------------------

    def _iteration_ended(self) -> None:
        assert self.stage is not None  # noqa: S101 — asked before
        seen = self.stage.end()
        self.report.iterations += 1
        if time.monotonic() - self._driven_since > self.plan.seconds:
            self._end("time")
        self._following(seen)

    def _following(self, seen: Seen | None = None) -> None:
        """Send a probe what was seen, and get the next trial ready, of this probe or of the next one."""
        assert self.stage is not None  # noqa: S101 — as above
        assert self.setting is not None  # noqa: S101 — as above
        while True:
            if self.current is None:
                if not self.todo:
                    self._end("done")
                name = self.todo.pop(0)
                self._allow_for_time()
                self.current, seen = (name, PROBES[name](self.setting)), None
            name, probe = self.current
            try:
                trial: Trial = next(probe) if seen is None else probe.send(seen)
            except StopIteration as e:
                self._add_result(e.value)
                self.current = None
                continue
            except Exception as e:  # noqa: BLE001 — one probe's failure is not the others'
                self._add_result(untried(name, "probe-raised", error=f"{type(e).__name__}: {e}"[:200]))
                self.current = None
                continue
            self.stage.begin(trial)
            return

    def _allow_for_time(self) -> None:
        """Take fewer iterations for a probe where the time that is left asks for it."""
        if self.setting is None or self.report.iterations < 2:
            return
        passed = time.monotonic() - self._driven_since
        left = self.plan.seconds - passed
        share = left / (len(self.todo) + 1)
        self.setting.steps = max(_FEWEST, min(STEPS, int(share * self.report.iterations / max(passed, 1e-3))))

    def _add_result(self, found: ProbeResult) -> None:
        found.values = self._secrets.value(found.values)
        self.report.results.append(found)
        self._write("script-ended")

    def _write(self, ended: str) -> None:
        self.report.ended = self._secrets.text(ended)
        self.report.seconds = time.monotonic() - self.began
        with contextlib.suppress(OSError):
            write_report(self.folder, self.report)

    def _out_of_time(self) -> None:
        """In a thread of its own: the loop does not come back to us."""
        self._end("time" if self.stage is not None else "no-loop")

    def _end(self, how: str) -> None:
        """The process has done what it was for; the script's own end would write what is nobody's."""
        self._ending.acquire()  # never released: who comes second waits for the end
        self._over = True
        self._write(how)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    def _script_ended(self) -> None:
        if self._over:
            return
        self._over = True
        error = getattr(sys, "last_value", None)
        if self.current is not None:
            words = f"{type(error).__name__}: {error}"[:200] if error is not None else ""
            code = "trial-raised" if error is not None else "loop-ended"
            self._add_result(untried(self.current[0], code, error=words))
        self._write(f"raised: {type(error).__name__}: {error}"[:300] if error is not None else "script-ended")


def _rate(optimizer: torch.optim.Optimizer) -> float:
    rates = [optimizer.defaults.get("lr", 0.0)]
    rates += [value for g in optimizer.param_groups for value in (g.get("lr", 0.0), g.get("initial_lr", 0.0))]
    return max(float(rate) for rate in rates)
