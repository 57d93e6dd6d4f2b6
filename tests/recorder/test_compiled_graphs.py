"""What torch's trace log tells of a compiled graph is read: operators, what is saved, and whose forward it was."""

import logging
from typing import Any

import pytest
import torch
from firstfault.recorder.autograd.compiled_graphs import CompiledGraphs
from firstfault.recorder.autograd.compiled_modules import Places, aligned, stack_of
from firstfault.recorder.autograd.graph_text import read_graph, sizes
from firstfault.recorder.session.patches import Patches
from firstfault.recorder.session.session import Session
from torch import nn

TEXT = """\
class GraphModule(torch.nn.Module):
    def forward(
        self,
        primals_1: "Sym(s77)",  # PlainAOTInput(idx=1)
        primals_2: "f32[s77, 16][16, 1]cpu",  # PlainAOTInput(idx=0)
        seed: "i64[][]cpu",  # PhiloxForwardSeedAOTInput()
    ):
        # File: /home/of it/train.py:12 in forward, code: return x / x.std(-1, keepdim=True)
        std = torch.ops.aten.var_mean.correction(primals_2, [1], correction = 0, keepdim = True)
        getitem: "f32[s77, 1][1, 1]cpu" = std[0]
        getitem_1: "f32[s77, 1][1, 1]cpu" = std[1];  std = None
        div: "f32[s77, 16][16, 1]cpu" = torch.ops.aten.div.Tensor(primals_2, getitem);  primals_2 = None

        # No stacktrace found for following nodes
        cat: "f32[s77, 32][32, 1]cpu" = torch.ops.aten.cat.default([div, div], dim = 1)
        own: "f32[][]cpu" = torch.ops.mine.op.default(cat)
        return (
            own,  # PlainAOTOutput(idx=0)
            getitem,  # SavedForBackwardsAOTOutput(idx=0)
            div,  # SavedForBackwardsAOTOutput(idx=1)
            primals_1,  # SavedForBackwardsAOTOutput(idx=2)
        )

class other(torch.nn.Module):
    def forward(self, x: "f32[1]"):
        return (x,)
"""


def test_a_graph_is_read_from_its_text() -> None:
    graph = read_graph(TEXT)

    assert graph.inputs == {"primals_1": 1, "primals_2": 0, "seed": None}
    assert graph.outputs == ["own", "getitem", "div", "primals_1"]
    assert list(graph.operations) == ["std", "getitem", "getitem_1", "div", "cat", "own"]
    div, cat = graph.operations["div"], graph.operations["cat"]
    assert (div.operator, div.overload, div.file) == ("aten.div", "Tensor", "/home/of it/train.py:12")
    assert div.arguments == ((0, "primals_2"), (1, "getitem"))
    assert graph.operations["getitem"].operator == "aten.var_mean"
    assert graph.operations["getitem"].item
    assert (cat.inputs, cat.arguments, cat.file) == (("div",), (), None)
    assert sizes(div.kind) == [None, 16]
    assert sizes(graph.kinds["primals_1"]) is None
    assert sizes("f32[][]cpu") == []


@pytest.mark.parametrize("text", ["", "no graph at all", "def forward(", TEXT[:700], TEXT.partition("  cat:")[0]])
def test_a_text_that_is_cut_or_strange_is_read_as_far_as_it_goes(text: str) -> None:
    graph = read_graph(text)
    assert len(graph.operations) < 6


class Scale(nn.Module):
    def forward(self, x: Any) -> Any:
        return x / x.abs().amax(-1, keepdim=True)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.norm, self.a, self.act, self.b = (
            Scale(),
            nn.LayerNorm(8),
            nn.Linear(8, 16),
            nn.GELU(),
            nn.Linear(16, 8),
        )

    def forward(self, x: Any) -> Any:
        return x + self.b(self.act(self.a(self.norm(self.scale(x)))))


class Seen(CompiledGraphs):
    """Keeps every graph, with the modules that the graph itself notes and those found from dynamo's."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def read(self, record: logging.LogRecord) -> None:
        super().read(record)
        if "aot_forward_graph" in getattr(record, "metadata", {}):
            logged = self._waiting[-1]
            assert logged.stacks is not None
            self.pairs.append((logged.stacks, aligned(read_graph(logged.text), logged.traced.steps)))


@pytest.fixture
def session(tmp_path: Any) -> Session:
    (tmp_path / "run").mkdir()
    return Session(tmp_path / "run")


def listening(session: Session) -> Any:
    graphs = Seen(session)
    graphs.install(Patches())
    return graphs


def names_in(model: nn.Module, stack: Any) -> str | None:
    return {id(m): name for name, m in model.named_modules()}[id(stack[-1]())] if stack else None


def test_a_graph_out_of_a_cache_finds_the_modules_that_a_fresh_one_notes(session: Session) -> None:
    model = nn.Sequential(Block(), Block(), nn.Linear(8, 4))
    session.catalogue.add_model(model, "model")
    graphs = listening(session)
    try:
        torch.compile(model, backend="aot_eager")(torch.randn(4, 8)).sum().backward()
    finally:
        logging.getLogger("torch.__trace").removeHandler(graphs)
        torch._dynamo.reset()

    ((noted, found),) = graphs.pairs
    named = {name: (names_in(model, noted[name]), names_in(model, found[name])) for name in found}
    assert {"0.scale", "0.norm", "0.a", "0.act", "0.b", "1.scale", "1.norm", "1.a", "1.act", "1.b", "2"} <= {
        truth for truth, _ in named.values()
    }
    for name, (truth, guess) in named.items():
        if truth is not None:  # what is computed for the backward alone has no note
            assert not guess or truth == guess or truth.startswith(f"{guess}."), (name, truth, guess)
    wrong = {name: pair for name, pair in named.items() if pair[0] is not None and pair[0] != pair[1]}
    assert len(wrong) <= 0.1 * len(named), wrong


def test_a_graph_that_serves_a_second_instance_names_the_modules_of_that_one(session: Session) -> None:
    model = nn.ModuleList([Block(), Block()])
    session.catalogue.add_model(model, "model")
    graphs = listening(session)
    run = torch.compile(Block.forward, backend="aot_eager")
    try:
        nodes = [run(block, torch.randn(4, 8)).grad_fn for block in model]
    finally:
        logging.getLogger("torch.__trace").removeHandler(graphs)
        torch._dynamo.reset()

    assert len(graphs.pairs) == 1
    graph = graphs.graph_of(nodes[0])
    assert graph is not None
    assert graph is graphs.graph_of(nodes[1])
    for block, node in zip(("0", "1"), nodes, strict=True):
        places = Places(session, graph.parameters, node)
        entries = [
            places.entry(value.module) for value in graph.saved if value is not None and value.module is not None
        ]
        assert {e.name for e in entries if e is not None} >= {f"{block}.scale", f"{block}.norm", f"{block}.a"}
        assert all(e is not None and e.name.startswith(block) for e in entries)


def test_nothing_is_named_where_nothing_tells_which_instance_ran(session: Session) -> None:
    model = nn.ModuleList([Scale(), Scale(), nn.Linear(2, 2)])
    session.catalogue.add_model(model, "model")
    scale = model[0]
    ref = stack_of(session, {"nn_module_stack": {str(id(scale)): ("L['self']", Scale)}})
    node = torch.randn(2, requires_grad=True).exp().grad_fn
    assert names_in(model, ref) == "0"
    assert Places(session, [None], node).entry(ref[-1]) is None


def test_a_module_that_is_gone_is_not_taken_for_another(session: Session) -> None:
    scale = Scale()
    number = str(id(scale))
    del scale
    assert stack_of(session, {"nn_module_stack": {number: ("L['self']", Scale), "no number": ("x", Scale)}}) == ()
