"""Modules that a model calls and does not hold are noted."""

from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.more: list[nn.Module] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for part in self.more:
            x = x + part(x)
        return x


def test_a_module_that_joins_a_plain_list_in_mid_run_is_noted_at_its_first_call(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = Growing()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(6):
            if step == 3:
                model.more.append(nn.Linear(4, 4))
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT step FROM events WHERE event = 'unregistered'").rows() == [(3,)]
        names = trace.sql("SELECT tensor_name FROM tensors WHERE registered = false ORDER BY tensor_name")
        assert names["tensor_name"].to_list() == ["more[0].bias", "more[0].weight"]


class Merging(nn.Module):
    """Holds branches, and a teacher, in lists whose names are private."""

    def __init__(self) -> None:
        super().__init__()
        self._branches = [nn.Linear(4, 4), nn.Linear(4, 4)]
        self._teacher = [nn.Linear(4, 4)]
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            taught = self._teacher[0](x)
        return self.head(sum(branch(x) for branch in self._branches)) - taught


def test_a_private_list_counts_where_it_is_called_with_gradients(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = Merging()
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()

    with Trace(tmp_path / "run") as trace:
        names = trace.sql("SELECT tensor_name FROM tensors WHERE registered = false ORDER BY tensor_name")
        assert "_branches[0].weight" in names["tensor_name"].to_list()
        assert not [name for name in names["tensor_name"] if name.startswith("_teacher")]


@pytest.mark.parametrize("how", ["module", "misspelt", "right"])
def test_a_freeze_that_freezes_nothing_is_named_and_a_right_one_is_not(tmp_path: Path, how: str) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 1))
        for part in model[0].modules():
            if how == "module":
                part.requires_grad = False
        for parameter in model[0].parameters():
            setattr(parameter, {"module": "note", "misspelt": "require_grad", "right": "requires_grad"}[how], False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        told = trace.sql("SELECT detail ->> '$.attribute' AS a FROM events WHERE event = 'freeze-missed'").to_dicts()
        causes = [(c.name, c.step, c.module) for c in diagnose(trace).causes if c.severity == "error"]
    if how == "right":
        assert (told, [c for c in causes if c[0] == "unintended-trainable"]) == ([], [])
    else:
        assert [row["a"] for row in told] == ["requires_grad" if how == "module" else "require_grad"]
        assert ("unintended-trainable", 0, "0" if how == "module" else "0.0") in causes


class Scaled(nn.Module):
    """Scales by what was computed from a parameter, which a module, an optimizer or nobody holds."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        scale = nn.Parameter(torch.ones(4, dtype=torch.float64))
        if how == "registered":
            self.raw = scale
        self.scale = scale.to(torch.float32)
        self._by_hand = [scale] if how == "by_hand" else []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.first(x)  # computed from a parameter too, and found by a second look
        return self.seen * self.scale


@pytest.mark.parametrize("how", ["moved", "registered", "by_hand"])
def test_a_parameter_that_was_moved_by_itself_is_named_and_a_registered_one_is_not(tmp_path: Path, how: str) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = Scaled(how)
        optimizer = torch.optim.SGD([*model.parameters(), *model._by_hand], 0.01)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        told = trace.sql(
            "SELECT detail ->> '$.attribute' AS a FROM events WHERE event = 'parameter-wrapped'"
        ).to_dicts()
        causes = [c.name for c in diagnose(trace).causes]
    assert [row["a"] for row in told] == (["scale"] if how == "moved" else [])
    assert ("unregistered-parameters" in causes) == (how == "moved")


class Tied(nn.Module):
    """A head that computes with the weight of another model's embedding, held in a list so that it is registered once."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.embedding = [body]

    def forward(self, h):
        return nn.functional.linear(self.norm(h), self.embedding[0].weight)


@pytest.mark.parametrize("trained", [True, False])
def test_a_weight_of_another_model_that_an_optimizer_holds_is_not_left_out(tmp_path, trained):
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        body = nn.Embedding(12, 8)
        head = Tied(body)
        optimizer = torch.optim.SGD([*head.parameters(), *(body.parameters() if trained else ())], 0.1)
        for _ in range(6):
            tokens = torch.randint(12, (4, 5))
            optimizer.zero_grad()
            h = body(tokens)
            nn.functional.cross_entropy(head(h[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        named = {c.name for c in diagnose(trace).causes}
    assert ("unregistered-parameters" in named) == (not trained)


class PlainLinear:
    """A layer that is no module."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.randn(2, 4))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight)


class Headed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = PlainLinear()
        self.unused = PlainLinear()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_layer_that_is_no_module_is_named_where_its_gradient_reaches_no_optimizer(
    tmp_path: Path, by_hand: bool
) -> None:
    torch.manual_seed(0)
    with Recorder(tmp_path / "run"):
        model = Headed()
        optimizer = torch.optim.SGD([*model.parameters(), *([model.head.weight] if by_hand else [])], 0.01)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        names = trace.sql("SELECT tensor_name FROM tensors WHERE registered = false")["tensor_name"].to_list()
        causes = [c.name for c in diagnose(trace).causes]
    assert names == ([] if by_hand else ["head.weight"])
    assert ("unregistered-parameters" in causes) == (not by_hand)


def test_looks_at_equal_rows_pass_over_steps_that_are_not_watched():
    from firstfault.recorder.watches.model_structure import next_look

    looks = [0]
    while looks[-1] < 500:
        looks.append(next_look(looks[-1]))
    assert looks == [0, 3, 10, 32, 64, 128, 256, 512]
    assert next_look(18) == 32
    assert next_look(40) == 64
