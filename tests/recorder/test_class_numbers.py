"""Numberings of names that data sets keep: what is compared, when something is said, and what is never written."""

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from firstfault.analyzer import Trace, diagnose, load_rules
from firstfault.analyzer.rules.thresholds import RuleSet
from firstfault.recorder import Recorder
from firstfault.recorder.script.numbering_use import gives_numbers
from firstfault.recorder.watches.class_numbers import _numberings
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

RULES = RuleSet(tuple(rule for rule in load_rules() if rule.header.code == "DA034"))
NAMES = ["ant", "bee", "cat", "dog", "eel"]
CENTRES = {name: 3 * torch.eye(8)[i] for i, name in enumerate(NAMES)}


class Pictures(Dataset[tuple[Tensor, int]]):
    """Numbers the names it is given, or takes a numbering."""

    def __init__(self, names: list[str], count: int, class_to_idx: dict[str, int] | None = None) -> None:
        class_to_idx = class_to_idx or {name: i for i, name in enumerate(sorted(names))}
        self.samples = [(CENTRES[name], class_to_idx[name]) for name in names for _ in range(count)]
        self.class_to_idx = class_to_idx

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.samples[i]


class Named(Pictures):
    """Its labels are numbered by somebody else; the names are for titles."""

    def __init__(self, names: list[str], count: int) -> None:
        super().__init__(names, count, {name: i for i, name in enumerate(NAMES)})
        del self.class_to_idx
        self.classes = names


class Encoded(Dataset[tuple[Tensor, int]]):
    """Asks a list of names for the place."""

    def __init__(self, names: list[str], count: int) -> None:
        self.labels = sorted(names)
        self.kept = [name for name in names for _ in range(count)]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return CENTRES[self.kept[i]], self.labels.index(self.kept[i])


def _train(run: Path, train: Any, *evaluations: Any, width: int = 5, head: bool = True) -> None:
    torch.manual_seed(0)
    body, last = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, width)
    model = nn.Sequential(body, last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Recorder(run, budget="off"):
        for _ in range(3):
            model.train()
            for x, y in DataLoader(train, 20, shuffle=True):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for evaluation in evaluations:
                    for x, y in DataLoader(evaluation, 20):
                        assert len(model(x) if head else body(x)) == len(y)


def _found(run: Path) -> list[tuple[str, str, str]]:
    with Trace(run) as trace:
        verdict = diagnose(trace, RULES)
        assert not trace.rows("SELECT * FROM events WHERE event = 'recorder-fault'")
        return [(c.code, c.severity, c.message) for c in (*verdict.causes, *verdict.symptoms)]


@pytest.mark.parametrize("kind", [Pictures, Encoded])
def test_a_split_that_numbers_its_own_classes_is_an_error(tmp_path: Path, kind: type) -> None:
    _train(tmp_path / "run", kind(NAMES, 12), kind(["ant", "cat", "dog", "eel"], 12))

    ((_, severity, message),) = _found(tmp_path / "run")
    assert severity == "error"
    assert "'cat' is 2 in training and 1 in evaluation" in message


def test_it_is_advice_beside_an_evaluation_with_the_numbers_of_the_training(tmp_path: Path) -> None:
    whole = Pictures(NAMES, 24)
    splits = Subset(whole, range(0, 120, 2)), Subset(whole, range(1, 120, 2))
    other = Subset(Pictures(["ant", "cat", "dog", "eel"], 12), range(48))
    _train(tmp_path / "run", splits[0], splits[1], other)

    assert [severity for _, severity, _ in _found(tmp_path / "run")] == ["warning"]


@pytest.mark.parametrize("case", ["given", "named", "tasks", "embeddings", "mapped"])
def test_honest_numberings_are_silent(tmp_path: Path, case: str) -> None:
    some = ["ant", "cat", "dog", "eel"]
    train: Any = Pictures(NAMES, 12)
    evaluation: Any = Pictures(some, 12)
    if case == "given":
        evaluation = Pictures(some, 12, train.class_to_idx)
    elif case == "named":
        train, evaluation = Named(NAMES, 12), Named(["eel", "dog", "cat", "ant"], 12)
    elif case == "tasks":
        train = ConcatDataset([train, Pictures(some, 12)])
    elif case == "mapped":
        evaluation.target_transform = {0: 0, 1: 2, 2: 3, 3: 4}.get
    _train(tmp_path / "run", train, evaluation, head=case != "embeddings")

    assert _found(tmp_path / "run") == []


def test_neither_data_sets_nor_their_names_are_kept(tmp_path: Path) -> None:
    secret = "hf_" + "aB3dE5fG7h" * 3 + "x1"
    long = "z" * 150
    first, second = (Pictures(NAMES, 12, dict(zip(order, range(3), strict=True)) | {n: i for i, n in enumerate(NAMES, 3)})
                     for order in ([secret, "\x1b[2J", long], [long, secret, "\x1b[2J"]))  # fmt: skip
    alive = weakref.ref(first)
    with Recorder(tmp_path / "run", budget="off"):
        list(DataLoader(first, 20))
        list(DataLoader(second, 20))
        layer = nn.Linear(1, 1)
        layer(torch.ones(1, 1)).sum().backward()
        torch.optim.SGD(layer.parameters(), 0.1).step()
        del first
        gc.collect()
        assert alive() is None

    with Trace(tmp_path / "run") as trace:
        (event,) = trace.rows("SELECT detail FROM events WHERE event = 'numbered-apart'")
    assert secret not in event["detail"]
    assert secret[:20] not in event["detail"]
    assert "\x1b" not in event["detail"]
    assert len(json.loads(event["detail"])["name"]) < 60


def test_dictionaries_that_number_nothing_are_left_alone() -> None:
    def found(**attributes: Any) -> list[tuple[str, list[str]]]:
        return [(one.attribute, one.names) for one in _numberings(type("Set", (), attributes | {})())]

    holder = Pictures(["ant", "bee"], 1)
    for name, value in {
        "label_counts": {"a": 3, "b": 0},
        "label_pairs": {"a": 0, "b": 0},
        "label_names": ["a", "a"],
        "label_of": {0: 0, 1: 1},
        "speakers": {"a": 0, "b": 1},
        "label_flags": {"a": False, "b": True},
        "words": {f"w{i}": i for i in range(10_001)},
    }.items():
        setattr(holder, name, value)
    assert [(one.attribute, one.names) for one in _numberings(holder)] == [("class_to_idx", ["ant", "bee"])]
    assert found() == []


def test_what_a_class_looks_up_is_read_in_its_source() -> None:
    assert gives_numbers(Pictures, "class_to_idx", places=False)
    assert gives_numbers(Encoded, "labels", places=True)
    assert not gives_numbers(Named, "classes", places=True)
