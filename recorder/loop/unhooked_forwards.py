"""Training forwards of which nothing is measured run without the global hooks of modules, where that loses nothing.

With global hooks torch calls every module in its slow way, and each hook is a call of Python: together some 15 µs a module,
a twentieth of a step for a network of very many small layers. All that the hooks would note in such a forward is which module
made which nodes of the autograd graph. A model that has made the same nodes in the same modules several times in a row is
trusted to do so again: only the call of the model itself is watched. If its nodes are as many as before, the modules are where
they were; if not, the model is watched again until it repeats itself.
"""

import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from ..session.patches import Patches, Removable
from ..session.registry import Catalogue, ModuleEntry

_TIMES = 3
"""Equal forwards in a row before one goes unwatched."""

_LOOKED_AT = 16
"""Modules whose mode is looked at before each unwatched forward where none was set by ``train`` or ``eval`` since the last."""

Span = tuple[int, int, "int | ForwardProfile"]
"""First node, node after the last, and the module_id, or all the calls in between as they usually are."""


class ForwardProfile:
    """How a model's forward ran when it was last watched; nodes count from its first."""

    __slots__ = ("_at", "modes", "modes_set", "nodes", "spans", "times", "version")

    def __init__(self, version: int, nodes: int, spans: list[tuple[int, int, int]]) -> None:
        self.version = version
        self.nodes = nodes
        self.spans = spans
        """First node, node after the last, module_id; inner calls before outer ones."""
        self.times = 1
        self.modes: list[tuple[weakref.ref[nn.Module], bool]] = []
        self.modes_set = -1
        """How often modes had been set anywhere when all modules were last seen in theirs."""
        self._at = 0

    def module_of(self, node: int) -> int | None:
        """module_id of the innermost module that makes this node."""
        return next((module_id for first, end, module_id in self.spans if first <= node < end), None)

    def same_modes(self, modes_set: int) -> bool:
        """Whether modules are in their usual modes: all are looked at where any may have been set, else some in turn."""
        looked_at = self.modes
        if modes_set == self.modes_set:
            looked_at = looked_at[self._at : self._at + _LOOKED_AT]
            self._at = self._at + _LOOKED_AT if self._at + _LOOKED_AT < len(self.modes) else 0
        for ref, training in looked_at:
            part = ref()
            if part is None or part.training is not training:
                return False
        self.modes_set = modes_set
        return True


class OneShotHook:
    """Live as a forward hook for one call. A copy does nothing: a model may be saved with the hook, after Ctrl-C."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class _End(OneShotHook):
    """The one of a model."""

    def __init__(self, quiet: "QuietForwards", entry: ModuleEntry, ended: Callable[..., None]) -> None:
        self._quiet = quiet
        self._entry = entry
        self._ended = ended
        self._error = sys.exc_info()[1]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._quiet.resume()
        if sys.exc_info()[1] is self._error:  # torch calls it in any case: not when the forward has raised
            self._quiet.unwatched = self._entry
            self._ended(module, args, output)


class QuietForwards:
    """Takes the recorder's hooks of modules out for the length of a model's forward, and puts them back at its end."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.allowed = True
        """False for good once something is seen that needs the hooks: numbers read from tensors inside modules."""
        self.unwatched: ModuleEntry | None = None
        """The model whose forward has just gone unwatched."""
        self._usual: dict[int, ForwardProfile] = {}
        self._modes_set = 0
        self._out: list[tuple[dict[int, Callable[..., Any]], int, Callable[..., Any]]] = []
        self._end: Any = None
        self._stand_ins: list[Removable] = []
        self._patches: Patches | None = None
        self.on_mode: Callable[[], None] = lambda: None
        """Told that the script sets the mode of a module."""

    def install(self, patches: Patches) -> None:
        """Note that modes of modules are set."""
        self._patches = patches
        patches.wrap(nn.Module, "train", self._train)

    def _train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def train(self_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():  # by hand, because a module calls it of each module in it
                self._modes_set += 1
                self.on_mode()
            return original(self_, *args, **kwargs)

        return train

    @property
    def active(self) -> bool:
        """Whether a forward is running unwatched."""
        return self._end is not None

    def try_without_hooks(self, entry: ModuleEntry, module: nn.Module, ended: Callable[..., None]) -> None:
        """A model's forward begins. If it may go unwatched, ``ended`` is called with (module, args, output) when it has
        returned, as a forward hook of its own."""
        usual = self._usual.get(entry.id)
        if (
            usual is None
            or usual.times < _TIMES
            or usual.version != self.catalogue.version
            or not self._possible(module)
            or not usual.same_modes(self._modes_set)
        ):
            return
        self._take_out(entry, module, ended)
        for stand_in in self._patches.stand_ins if self._patches is not None else ():
            self._stand_ins += stand_in()

    def begin_evaluation(self, entry: ModuleEntry, module: nn.Module, ended: Callable[..., None]) -> None:
        """One of very many evaluation forwards begins, of which nothing is measured; it leaves no graph, so that there is
        nothing to know of its modules either."""
        if self._possible(module):
            self._take_out(entry, module, ended)

    def _take_out(self, entry: ModuleEntry, module: nn.Module, ended: Callable[..., None]) -> None:
        self._end = module.register_forward_hook(_End(self, entry, ended), always_call=True)
        for handle in self._patches.module_hooks if self._patches is not None else ():
            hooks = handle.hooks_dict_ref()
            if hooks is not None and handle.id in hooks:
                self._out.append((hooks, handle.id, hooks.pop(handle.id)))

    def resume(self) -> None:
        """Put the hooks back, if they are out."""
        self.unwatched = None
        end, self._end = self._end, None
        if end is not None:
            end.remove()
        stand_ins, self._stand_ins = self._stand_ins, []
        for hook in stand_ins:
            hook.remove()
        out, self._out = self._out, []
        for hooks, key, hook in out:
            hooks[key] = hook

    def forward_ended(self, entry: ModuleEntry, first: int, after: int, spans: list[Span]) -> list[Span]:
        """A training forward of a model is over: it made the nodes from ``first`` to before ``after``. ``spans`` are the calls
        inside that were seen. Returns those that were not, as far as they can be known."""
        usual, nodes = self._usual.get(entry.id), after - first
        if self.unwatched is not entry:
            seen = [(begin - first, end - first, made) for begin, end, made in spans if isinstance(made, int)]
            version = self.catalogue.version
            if usual is not None and usual.nodes == nodes and usual.version == version and usual.spans == seen:
                usual.times += 1
            else:
                usual = self._usual[entry.id] = ForwardProfile(version, nodes, seen)
            if usual.times >= _TIMES:
                called = {module_id for _, _, module_id in seen}
                entries = [e for e in self.catalogue.by_object.values() if e is not None and e.id in called]
                usual.modes = [(e.ref, m.training) for e in entries if (m := e.ref()) is not None]
                usual.modes_set = -1
            return []
        self.unwatched = None
        if usual is None:
            return []
        if usual.nodes != nodes:
            usual.times = 0
            return []
        return [(first, after, usual)]

    def as_usual(self, module_id: int, after: int) -> list[Span]:
        """The calls of a model whose forward nobody saw, if it always runs one way and made the nodes before ``after``."""
        usual = self._usual.get(module_id)
        if usual is None or usual.times < _TIMES or usual.version != self.catalogue.version:
            return []
        return [(after - usual.nodes, after, usual)]

    def _possible(self, module: nn.Module) -> bool:
        """Whether nobody else has hooks that torch must call, and nothing is compiled: compiled code that was made with hooks
        in place is made again without them."""
        if not self.allowed or self._end is not None or self._patches is None:
            return False
        ours = len(self._patches.module_hooks)
        theirs = len(nn_module._global_forward_pre_hooks) + len(nn_module._global_forward_hooks) - ours
        if theirs or module._forward_pre_hooks or module._forward_hooks or isinstance(module, torch.jit.ScriptModule):
            return False
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo is None or not dynamo.counters["stats"].get("unique_graphs", 0)
