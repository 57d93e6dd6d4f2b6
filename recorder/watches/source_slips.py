"""Mistakes that stand in the source of what runs: a result that nobody takes, one module several times in a list, best
weights that a training loop keeps by reference.

Source is read where a model is found and where the first losses go backward. What is told of a list was seen in the model too,
and of a loop only while it trains.
"""

import sys
from collections import Counter
from types import CodeType
from typing import Any

from torch import Tensor, nn

from ..script.frames import is_script, outside, shown
from ..script.slips import running, slips
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_FILES = 16
_MOST_TOLD = 16
_MOST_WRAPPERS = 4
_LOSSES = 3
"""Backward passes from which it is seen which functions train."""

_LEFT = {
    "computed": "gives a new tensor, which nobody takes",
    "not_called": "is named and not called",
    "compared": "compares and assigns nothing",
    "signed": "throws the earlier value away",
    "loads_nothing": "gives the weights and loads none",
    "rebound": "only binds the variable of a loop anew",
    "overwritten": "is bound anew before anything reads it",
    "made_anew": "makes a new module, which nobody takes",
    "misspelt": "binds a name that nothing reads, and one that differs in a letter is read",
    "twin_read": "binds a name that nothing reads, and its loop reads what another loop has left",
    "list_unread": "takes the last element of a list that nothing reads",
    "unread": "is read by nothing, and an argument enters nothing else",
}
"""Why a statement does not do what it says, in words of the event."""


class SourceSlipsWatch(Watch):
    """Writes events of what was read in the source."""

    name = "source-slips"
    writes = (
        "events:result-discarded",
        "events:module-repeated",
        "events:alias-kept",
        "events:term-detached",
        "events:part-detached",
        "events:result-unread",
        "events:derivative-repeated",
        "events:turned-round",
        "events:argument-ignored",
        "events:fitted-anew",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._files: set[str] = set()
        self._told: set[tuple[str, int]] = set()
        self._losses = 0

    def listen(self, signals: Signals) -> None:
        """Read the files of models, and those of the functions that train them."""
        signals.model_found.connect(self.name, self._model)
        signals.inner_model_found.connect(self.name, self._model)
        signals.loss.connect(self.name, self._trains)
        signals.step_begins.connect(self.name, self._steps)

    def _model(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None:
            return
        forwards: dict[type[nn.Module], CodeType] = {}
        for part in model.modules():
            code = _code_of(type(part), "forward")
            if code is not None and self._readable(code.co_filename):
                forwards[type(part)] = code
        for file in sorted({code.co_filename for code in forwards.values()}):
            inside = {cls: code for cls, code in forwards.items() if code.co_filename == file}
            self._discarded(file, {"forward"}, model, inside)
            self._detached(file, {"forward"}, inside)
            self._repeated_derivatives(file, {"forward"}, inside)
            self._cut(file, model, inside)
            self._unread(file, model, inside)
        self._repeated(model, {code.co_filename for code in forwards.values()})

    def _steps(self) -> None:
        """A step without a loss: backward may be what is never called."""
        if not self._losses:
            self._look_outwards()

    def _trains(self, _loss: Tensor) -> None:
        self._look_outwards()

    def _look_outwards(self) -> None:
        """The functions that train, from the innermost outwards."""
        if self._losses >= _LOSSES:
            return
        self._losses += 1
        frame = outside(sys._getframe(1))
        functions: dict[str, dict[str, int]] = {}
        while frame is not None:
            if self._readable(frame.f_code.co_filename):
                functions.setdefault(frame.f_code.co_filename, {}).setdefault(frame.f_code.co_name, frame.f_lineno)
            frame = frame.f_back
        for file, lines in functions.items():
            self._discarded(file, set(lines))
            self._detached(file, set(lines))
            self._repeated_derivatives(file, set(lines))
            self._turned(file, set(lines))
            self._ignored(file)
            self._fitted(file, set(lines))
            self._kept(file, lines)

    def _readable(self, file: str) -> bool:
        if file not in self._files and len(self._files) < _MOST_FILES and is_script(file):
            self._files.add(file)
        return file in self._files

    def _discarded(
        self,
        file: str,
        roots: set[str],
        model: nn.Module | None = None,
        classes: dict[type[nn.Module], CodeType] | None = None,
    ) -> None:
        found = slips(file).discarded
        ran = running(file, roots) if found else set[str]()
        for slip in found:
            if slip.function in ran and _may_run(classes, slip.function, slip.line) and self._new(file, slip.line):
                part = _part_of(model, classes or {}, slip.function, slip.line)
                entry = None if part is None else self.session.catalogue.find(part)
                self._tell(
                    "result-discarded",
                    f"{slip.text} {_LEFT[slip.reason]}",
                    entry,
                    {
                        "text": slip.text,
                        "target": slip.target,
                        "reason": slip.reason,
                        "meant": slip.meant,
                        "called": slip.called,
                        "method": slip.method,
                        "in_place": hasattr(Tensor, f"{slip.called}_"),
                        "place": f"{shown(file)}:{slip.line}",
                        "function": slip.function,
                    },
                )

    def _detached(self, file: str, roots: set[str], classes: dict[type[nn.Module], CodeType] | None = None) -> None:
        """Sums of losses in what runs."""
        found = slips(file).detached
        ran = running(file, roots) if found else set[str]()
        for slip in found:
            if slip.function in ran and _may_run(classes, slip.function, slip.line) and self._new(file, slip.line):
                self._tell(
                    "term-detached",
                    f"{slip.term} is a number without a graph in {slip.text}"
                    if slip.reason != "own_difference"
                    else f"{slip.text} subtracts weights from themselves",
                    None,
                    {
                        "text": slip.text,
                        "term": slip.term,
                        "made": slip.made,
                        "reason": slip.reason,
                        "made_place": f"{shown(file)}:{slip.made_line}",
                        "place": f"{shown(file)}:{slip.line}",
                    },
                )

    def _repeated_derivatives(
        self, file: str, roots: set[str], classes: dict[type[nn.Module], CodeType] | None = None
    ) -> None:
        found = slips(file).derivatives
        ran = running(file, roots) if found else set[str]()
        for slip in found:
            if slip.function in ran and _may_run(classes, slip.function, slip.line) and self._new(file, slip.line):
                self._tell(
                    "derivative-repeated",
                    f"{slip.target} and {slip.earlier} are the same derivative of {slip.output}",
                    None,
                    {
                        "text": slip.text,
                        "target": slip.target,
                        "earlier": slip.earlier,
                        "output": slip.output,
                        "place": f"{shown(file)}:{slip.line}",
                    },
                )

    def _turned(self, file: str, roots: set[str]) -> None:
        """Limits, best values and averages in what trains."""
        found = slips(file).turned
        ran = running(file, roots) if found else set[str]()
        for slip in found:
            if slip.function in ran and self._new(file, slip.line):
                self._tell(
                    "turned-round",
                    f"{slip.text} is the wrong way round for {slip.target}",
                    None,
                    {
                        "text": slip.text,
                        "reason": slip.reason,
                        "target": slip.target,
                        "value": None if slip.value is None else f"{slip.value:g}",
                        "limit": slip.limit,
                        "meant": slip.meant,
                        "place": f"{shown(file)}:{slip.line}",
                    },
                )

    def _ignored(self, file: str) -> None:
        """Arguments that what they are given to does not read."""
        for slip in slips(file).ignored:
            if self._new(file, slip.line):
                self._tell(
                    "argument-ignored",
                    f"{slip.function} does not read {slip.name}",
                    None,
                    {
                        "text": slip.text,
                        "function": slip.function,
                        "argument": slip.name,
                        "value": slip.value,
                        "kept_as": slip.kept_as,
                        "place": f"{shown(file)}:{slip.line}",
                        "defined": f"{shown(file)}:{slip.defined}",
                    },
                )

    def _fitted(self, file: str, roots: set[str]) -> None:
        """What prepares the data of an evaluation by its own statistics."""
        found = slips(file).fitted
        ran = running(file, roots) if found else set[str]()
        for slip in found:
            if slip.function in ran and self._new(file, slip.line):
                self._tell(
                    "fitted-anew",
                    f"{slip.text} fits {slip.fitted} on data of an evaluation",
                    None,
                    {
                        "text": slip.text,
                        "fitted": slip.fitted,
                        "given": slip.given,
                        "trained": slip.trained,
                        "place": f"{shown(file)}:{slip.line}",
                    },
                )

    def _cut(self, file: str, model: nn.Module, classes: dict[type[nn.Module], CodeType]) -> None:
        """Modules whose output the forward of the module round them detaches."""
        cut = slips(file).cut
        new = {line for line in sorted({slip.line for slip in cut}) if self._new(file, line)}
        for slip in cut:
            holders = [m for m in model.modules() if type(m) in classes and type(m).__name__ == slip.owner]
            parts = [holder._modules.get(slip.attribute) for holder in holders] if slip.line in new else []
            for part in parts[:_MOST_TOLD]:
                entry = None if part is None else self.session.catalogue.find(part)
                if entry is not None:
                    self._tell(
                        "part-detached",
                        f"{slip.text} detaches what {entry.name or entry.model} has put out",
                        entry,
                        {"text": slip.text, "place": f"{shown(file)}:{slip.line}"},
                    )

    def _unread(self, file: str, model: nn.Module, classes: dict[type[nn.Module], CodeType]) -> None:
        """Modules whose results end in a variable that nothing reads."""
        for slip in slips(file).branches:
            holder = next((m for m in model.modules() if type(m) in classes and type(m).__name__ == slip.owner), None)
            if holder is None or not self._new(file, slip.line):
                continue
            for attribute in slip.attributes[:_MOST_TOLD]:
                part = holder._modules.get(attribute)
                entry = None if part is None else self.session.catalogue.find(part)
                if entry is not None:
                    self._tell(
                        "result-unread",
                        f"nothing reads {slip.target} after {slip.text}",
                        entry,
                        {
                            "text": slip.text,
                            "target": slip.target,
                            "untouched": slip.untouched or None,
                            "place": f"{shown(file)}:{slip.line}",
                        },
                    )

    def _kept(self, file: str, lines: dict[str, int]) -> None:
        """Loops that train now: their functions are at these lines."""
        for slip in slips(file).kept:
            first, last = slip.loop
            if first <= lines.get(slip.function, 0) <= last and self._new(file, slip.line):
                self._tell(
                    "alias-kept",
                    f"{slip.target} refers to {slip.model}, which is trained on until line {slip.used} uses it",
                    None,
                    {
                        "text": slip.text,
                        "target": slip.target,
                        "model": slip.model,
                        "whole": slip.whole,
                        "use": slip.use,
                        "use_line": slip.used,
                        "place": f"{shown(file)}:{slip.line}",
                    },
                )

    def _repeated(self, model: nn.Module, files: set[str]) -> None:
        for holder in model.modules():
            held = Counter(id(part) for part in holder._modules.values() if part is not None)
            for key, times in held.items():
                part = next(p for p in holder._modules.values() if id(p) == key)
                if times < 2 or part is None or next(part.parameters(), None) is None:
                    continue
                for file in sorted(files):
                    for slip in slips(file).repeated:
                        if slip.made == type(part).__name__ and self._new(file, slip.line):
                            self._tell(
                                "module-repeated",
                                f"{slip.text} is one module {times} times",
                                self.session.catalogue.find(holder),
                                {
                                    "text": slip.text,
                                    "element": slip.element,
                                    "class": slip.made,
                                    "times": times,
                                    "place": f"{shown(file)}:{slip.line}",
                                },
                            )

    def _new(self, file: str, line: int) -> bool:
        if (file, line) in self._told or len(self._told) >= _MOST_TOLD:
            return False
        self._told.add((file, line))
        return True

    def _tell(self, event: str, words: str, entry: ModuleEntry | None, detail: dict[str, Any]) -> None:
        self.session.rows.event(event, words, module_id=None if entry is None else entry.id, detail=detail)


def _code_of(cls: type[nn.Module], function: str) -> CodeType | None:
    """The code of a method as its class has it written, behind the wrappers of libraries. None where it is no Python function,
    as of a scripted module."""
    found = next((vars(base)[function] for base in cls.__mro__ if function in vars(base)), None)
    for _ in range(_MOST_WRAPPERS):
        found = getattr(found, "__wrapped__", found)
    code = getattr(found, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _may_run(classes: dict[type[nn.Module], CodeType] | None, function: str, line: int) -> bool:
    """Whether a line can be one of the forwards that run. What they call is known by its name alone."""
    if classes is None or function != "forward":
        return True
    return any(line in {at for *_, at in code.co_lines()} for code in classes.values())


def _part_of(
    model: nn.Module | None, classes: dict[type[nn.Module], CodeType], function: str, line: int
) -> nn.Module | None:
    """The first module of the class that holds the line: the one whose function of this name begins last before it."""
    begins: dict[type[nn.Module], int] = {}
    for cls, forward in classes.items():
        code = forward if function == "forward" else getattr(cls.__dict__.get(function), "__code__", None)
        if isinstance(code, CodeType) and code.co_filename == forward.co_filename and code.co_firstlineno <= line:
            begins[cls] = code.co_firstlineno
    if model is None or not begins:
        return None
    wanted = max(begins, key=lambda cls: begins[cls])
    return next(part for part in model.modules() if type(part) is wanted)
