"""Watches are independent: their order changes no row, and each can be left out by its name."""

import argparse
import ast
import gc
import importlib.util
import json
import os
import random
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import forked
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.recorder.attachment import Attachment
from firstfault.recorder.autograd.compiled_graphs import CompiledGraphs
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.session.watch import Part, Watch, in_order
from firstfault.schemas import TABLES
from firstfault.schemas.part_declarations import read_declarations
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

RECORDER = Path(sys.modules[Attachment.__module__].__file__).parent
PARTS = read_declarations(RECORDER)
NAMES = [part.name for part in PARTS if part.is_watch]
STRICT = "FIRSTFAULT_STRICT"
TESTS = str(Path(forked.__file__).parent)
KIND = {"events": "event", "probes": "probe", "metrics": "source", "tensors": "kind"}
"""Column that tells the kinds of rows apart in a table that many parts fill."""

_spec = importlib.util.spec_from_file_location("compare_recorders", Path(__file__).parent / "compare_recorders.py")
compare_recorders = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compare_recorders)


@pytest.fixture(scope="module", autouse=True)
def objects_of_the_training_alone() -> Generator[None]:
    """Hide what is there already from the garbage collector: the recorder looks through all objects in each training."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Reader(nn.Module):
    """Tokens through attention, with a tied head, batch norm, a block that is checkpointed without a graph, and dropout that an
    evaluation does not switch off."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 8, padding_idx=0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embedding.weight
        self.side = nn.Linear(6, 8)
        self.gain = nn.Parameter(torch.ones(8))
        self.loose = [nn.Linear(2, 2)]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        x, _ = self.attention(x, x, x, key_padding_mask=tokens == 0)
        x = self.norm(x.mean(1)) + checkpoint(self.side, tokens.float(), use_reentrant=True)
        return self.head(nn.functional.dropout(x, 0.1))


def train(run: Path, **chosen) -> list[float]:
    """A training in which most watches have something to say."""
    losses, kept = [], []
    with warnings.catch_warnings(), Recorder(run, budget="off", **chosen):
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", ".*inputs have requires_grad=True|.*_reentrant")
        torch.manual_seed(0)
        options = argparse.ArgumentParser()
        options.add_argument("--amp", type=bool)
        options.parse_args(["--amp", "no"])
        model = Reader()
        average = torch.optim.swa_utils.AveragedModel(model)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
        tokens = torch.randint(1, 12, (64, 6))
        tokens[::3, 4:] = 0
        loader = DataLoader(TensorDataset(tokens, torch.randint(1, 12, (64,))), batch_size=8, shuffle=True)
        model.eval()
        with torch.no_grad():
            model(tokens[:8])
        model.train()
        gain = model.gain.double()
        threads = torch.get_num_threads()
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                out = model(x)
                loss = nn.functional.cross_entropy(out, y) + gain.mean().float()
                loss.backward()
                torch.set_num_threads(
                    1 + (len(losses) == 15)
                )  # a second thread costs a busy machine more than it brings
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with torch.autograd.set_detect_anomaly(bool(epoch), check_nan=False):
                    optimizer.step()
                average.update_parameters(model)
                kept.append(out.sum())
                losses.append(loss.item())
                if epoch:
                    model.head.register_forward_hook(lambda *_: None)
            scheduler.step()
            model.eval()
            with torch.no_grad():
                for _ in range(3):
                    print(nn.functional.cross_entropy(model(tokens), tokens[:, 0]).item())
            model.train()
            torch.save({"model": model.state_dict(), "step": epoch}, run.parent / "state.pt")
            model.load_state_dict(torch.load(run.parent / "state.pt")["model"])
            warnings.warn(f"epoch {epoch}", UserWarning, stacklevel=1)
        torch.set_num_threads(threads)
        loss = nn.functional.cross_entropy(model(tokens[:8]) * float("nan"), tokens[:8, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def contents(run: Path) -> Counter[str]:
    """What a recording holds, in the words of ``Part.writes``: how many rows of tables and of kinds, values of columns."""
    found: Counter[str] = Counter()
    kinds = {(row["rank"], row["tensor_id"]): row["kind"] for row in compare_recorders.rows_of(run, "tensors")}
    for table in TABLES:
        for row in compare_recorders.rows_of(run, table):
            found[table] += 1
            for column, value in row.items():
                found[f"{table}.{column}"] += value is not None
            if table in KIND:
                found[f"{table}:{row[KIND[table]]}"] += 1
            elif table == "tensor_stats":
                found[f"{table}:{kinds[row['rank'], row['tensor_id']]}"] += 1
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """The training, recorded with every watch."""
    run = tmp_path_factory.mktemp("whole") / "run"
    return run, train(run)


def test_the_training_shows_that_most_watches_write(whole):
    """Else the tests below show nothing."""
    found = contents(whole[0])
    told = {name for name, writes in ((p.name, p.writes) for p in PARTS if p.is_watch) if any(map(found.get, writes))}
    assert len(told) >= 25, sorted(set(NAMES) - told)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training in a process of its own, recorded by the watches in the order of the list."""
    return in_a_process(tmp_path_factory.mktemp("listed"), "")


def in_a_process(folder: Path, seed: str) -> Path:
    """Run this file; the order of watches is shuffled where there is a seed."""
    command = [sys.executable, __file__, str(folder / "run"), seed]
    done = forked.run(command, text=True, env={**os.environ, STRICT: "1", "PYTHONPATH": TESTS})
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.suite) for seed in (1, 2, 3))])
def test_the_order_of_watches_changes_no_row(seed: int, listed: Path, tmp_path: Path):
    run = in_a_process(tmp_path, str(seed))
    both = [compare_recorders.comparable(recorded, order=False) for recorded in (listed, run)]
    assert compare_recorders.differences(*both) == []
    assert len(both[0]["memory_owners"]) > 0, "the watch whose place matters most found nothing to say"


GROUPS = [NAMES[first::4] for first in range(4)]
"""Every watch is in one of these. To leave out one at a time takes a training each, which is left to the suite."""


@pytest.mark.parametrize(
    "names",
    [
        *(pytest.param(names, id=f"each fourth from {names[0]}") for names in GROUPS),
        *(pytest.param([name], id=name, marks=pytest.mark.suite) for name in NAMES),
    ],
)
def test_watches_that_are_left_out_leave_out_what_they_write_and_nothing_else(names: list[str], whole, tmp_path: Path):
    run = tmp_path / "run"
    losses = train(run, without=names)

    assert losses == whole[1], "the training is another one"
    before, after = contents(whole[0]), contents(run)
    assert not after["events:recorder-fault"]
    declared = {part.name: set(part.writes) for part in PARTS}
    depend = {*names} | {part.name for part in PARTS if {*names} & {*part.uses}}
    mine = {entry for other in depend for entry in declared[other]}
    # what memory holds differs from one training of a process to the next; what is not measured has no account
    chance = ("memory_", "recorder_stats")
    fewer = {what for what in before if after[what] < before[what] and not what.startswith(chance)}
    assert {what for what in fewer if not covered(what, mine)} == set()
    others = {entry for part in PARTS if part.name not in names for entry in part.writes}
    for entry in {entry for name in names for entry in declared[name]} - others:
        assert not after[entry], f"{entry} is written by somebody else, too"


def covered(what: str, declared: set[str]) -> bool:
    """Whether something of a recording belongs to what was declared: a column to its table, a row of a kind to its table too."""
    table = what.split(".", maxsplit=1)[0].split(":", maxsplit=1)[0]
    kinds = any(entry.startswith(f"{table}:") for entry in declared)
    return what in declared or table in declared or (kinds and ":" not in what)


def test_a_watch_comes_behind_those_that_it_names_whatever_the_list_says():
    by_name = {part.name: part for part in PARTS}
    for seed in range(20):
        parts = [type(p.name, (Watch,), {"name": p.name, "uses": p.uses})(None) for p in PARTS]
        random.Random(seed).shuffle(parts)
        ordered = [part.name for part in in_order(parts)]
        assert sorted(ordered) == sorted(by_name)
        for name in ordered:
            assert all(ordered.index(earlier) < ordered.index(name) for earlier in by_name[name].uses)


def test_what_is_declared_is_what_is_attached(tmp_path: Path):
    with Recorder(tmp_path / "run") as recorder:
        parts = recorder._attachment.parts
    assert sorted(part.name for part in parts) == sorted(part.name for part in PARTS)
    assert {part.name for part in parts if isinstance(part, Watch)} == set(NAMES)
    known = {part.name: part for part in PARTS}
    assert all((part.writes, part.uses) == (known[part.name].writes, known[part.name].uses) for part in parts)


def test_every_declaration_names_what_exists_and_every_other_watch_that_it_needs():
    names = {part.name for part in PARTS}
    for part in PARTS:
        assert set(part.uses) <= names
        for entry in part.writes:
            table, _, column = entry.partition(".")
            table, _, kind = table.partition(":")
            assert table in TABLES, entry
            assert not column or column in TABLES[table].column_names, entry
            assert not kind or table in {*KIND, "tensor_stats"}, entry


def test_whatever_is_written_by_name_is_declared_by_some_part():
    """A table that a part adds rows to, an event and a probe that it writes: each has somebody who says so."""
    declared = {entry for part in PARTS for entry in part.writes}
    session = {"ranks", "recorder_stats"}
    spoken = {"attached", "attempt", "device-lost", "exception", "recorder-fault", "rows-dropped"}
    seen = 0
    for file in RECORDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            first = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if node.func.attr == "event" and first is not None:
                seen += 1
                assert first in spoken or f"events:{first}" in declared, f"{file.name}:{node.lineno} {first}"
            elif node.func.attr == "add" and first in TABLES and node.keywords:
                seen += 1
                tables = {entry.split(":")[0].split(".")[0] for entry in declared if ".steps" not in entry}
                assert first in tables | session, f"{file.name}:{node.lineno} {first}"
            for keyword in node.keywords:
                if keyword.arg == "probe" and isinstance(keyword.value, ast.Constant):
                    seen += 1
                    assert f"probes:{keyword.value.value}" in declared, f"{file.name}:{node.lineno}"
    assert seen > 50, "the calls were not found: this test shows nothing"


def test_an_unknown_name_is_one_sentence_that_lists_the_names(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("print('ran')")
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--without",
        "host-read",
        "--out",
        str(tmp_path / "run"),
        script,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "there is no watch 'host-read'" in done.stderr
    assert all(name in done.stderr for name in NAMES)
    with pytest.raises(RecorderError, match="there is no watch 'x'; there are after-step"):
        Recorder(tmp_path / "other", without=["x"]).__enter__()


def test_what_is_left_out_stands_in_run_json(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text("import torch")
    options = ["--without", "ties", "--without", "copies", "--without", "ties"]
    command = [sys.executable, "-m", "firstfault", "run", *options, "--out", str(tmp_path / "run"), script]
    forked.run(command, check=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["without"] == ["copies", "ties"]


def test_a_run_that_is_to_be_skipped_or_stopped_cannot_do_without_captures(tmp_path: Path):
    with pytest.raises(RecorderError, match="--without captures: nothing is left that could stop"):
        Recorder(tmp_path / "run", without=["captures"], on_nonfinite="stop").__enter__()


def test_a_loss_that_is_a_weight_itself_is_no_fault_of_the_recorder(tmp_path: Path):
    """Two watches leave notes in the same node of the graph."""
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], 0.1)
    with Recorder(tmp_path / "run"):
        for _ in range(4):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
    assert contents(tmp_path / "run")["steps"] == 4
    assert not contents(tmp_path / "run")["events:recorder-fault"]


def main(run: Path, seed: str) -> None:
    """Record the training, by shuffled watches where there is a seed."""
    listed = Attachment._watches

    def shuffled(self: Attachment, graphs: CompiledGraphs) -> list[Part]:
        parts = listed(self, graphs)
        before = list(parts)
        random.Random(seed).shuffle(parts)
        assert parts != before
        return parts

    if seed:
        Attachment._watches = shuffled
    train(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
