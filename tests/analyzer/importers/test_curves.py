"""Logs of others: what they tell is judged, what they leave out is no fault."""

import csv
import json
import math
import random
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.tensorboard import _masked

NAN = math.nan
Row = dict[str, Any]


def falling(n: int, *, seed: int = 0, noise: float = 0.03, start: float = 2.3, tau: float = 40.0) -> list[float]:
    """A loss that falls to 0.4."""
    r = random.Random(seed)
    return [0.4 + (start - 0.4) * math.exp(-i / tau) + r.gauss(0, noise) for i in range(n)]


def write(path: Path, rows: Iterable[Row]) -> Path:
    """As CSV, JSON lines or trainer_state.json, by the name."""
    rows = list(rows)
    if path.name == "trainer_state.json":
        path.write_text(json.dumps({"log_history": rows, "max_steps": 500, "global_step": 9}))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    return path


def judged(tmp_path: Path, name: str, rows: Iterable[Row]) -> tuple[Verdict, list[tuple[Any, ...]]]:
    """Verdict and steps of a log."""
    import_files([write(tmp_path / name, rows)], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        return diagnose(trace), trace.sql("SELECT step, loss, grad_norm FROM steps ORDER BY step").rows()


L = falling(200)
HEALTHY: dict[str, tuple[str, list[Row]]] = {
    "nothing but losses": ("log.csv", [{"step": i, "loss": v} for i, v in enumerate(L)]),
    "every tenth step": (
        "log.csv",
        [{"Step": i * 10, "Training Loss": v, "Learning Rate": 1e-3} for i, v in enumerate(L)],
    ),
    "much noise": (
        "log.jsonl",
        [{"iter": i, "train/loss": v, "lr": 1e-3 * (1 - i / 300)} for i, v in enumerate(falling(300, noise=0.4))],
    ),
    "warm-up and cosine": (
        "log.csv",
        [
            {
                "step": i,
                "loss": v,
                "lr": 1e-3 * min(i / 20, 1) * (1 + math.cos(math.pi * i / 200)),
                "grad_norm": 1 + i % 3,
            }
            for i, v in enumerate(L)
        ],
    ),
    "one row an epoch": (
        "log.csv",
        [
            {"epoch": i, "train_loss": v, "val_loss": v + 0.1, "acc": 1 - v / 3}
            for i, v in enumerate(falling(30, tau=8))
        ],
    ),
    "columns that never change": (
        "log.csv",
        [{"step": i, "loss": v, "batch": 32, "lr": 1e-3, "acc": 0.5, "seed": 1} for i, v in enumerate(L)],
    ),
    "a negative loss": ("log.csv", [{"step": i, "loss": -i * 0.5 + random.Random(i).gauss(0, 3)} for i in range(150)]),
    "rewards": (
        "log.csv",
        [{"step": i, "loss": random.Random(i).gauss(0, 2) * (1 + i / 50), "reward": i} for i in range(200)],
    ),
    "a new task": ("log.csv", [{"step": i, "loss": v} for i, v in enumerate(falling(100) + falling(100, start=4.0))]),
    "a training that was resumed": (
        "log.csv",
        [{"step": i, "loss": v} for i, v in enumerate(L[:100])]
        + [{"step": 80 + i, "loss": v} for i, v in enumerate(L[80:])],
    ),
    "a counter that starts anew each epoch": (
        "log.csv",
        [{"epoch": i // 50, "step": i % 50, "loss": v} for i, v in enumerate(L)],
    ),
    "evaluations in the same column": (
        "log.jsonl",
        [
            row
            for i, v in enumerate(L)
            for row in ({"step": i, "phase": "train", "loss": v}, {"step": i, "phase": "val", "loss": 30 * v})
            if row["phase"] == "train" or i % 10 == 9
        ],
    ),
    "a scaler that skipped steps": (
        "trainer_state.json",
        [
            {
                "step": 5 * i + 5,
                "loss": v,
                "grad_norm": NAN if i in {0, 1, 7} else 1 + 0.1 * (i % 3),
                "learning_rate": 5e-5,
            }
            for i, v in enumerate(L)
        ]
        + [{"step": 1000, "eval_loss": 0.5}, {"step": 1000, "train_loss": 9.9, "train_runtime": 33.0}],
    ),
}


@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_log_is_healthy(tmp_path, case):
    verdict, steps = judged(tmp_path, *HEALTHY[case])
    assert verdict.causes == []
    assert verdict.verdict == "healthy"
    assert len(steps) >= 30


def bad(from_: int, change: Any) -> list[float]:
    """The falling loss, changed from a step on."""
    return [v if i < from_ else change(v, i - from_) for i, v in enumerate(L[:100])]


FAULTS: dict[str, tuple[str, list[Row], str, int]] = {
    "a loss that is lost": (
        "log.csv",
        [{"step": i, "loss": v} for i, v in enumerate(bad(60, lambda _v, _k: NAN))],
        "unexplained-nonfinite",
        60,
    ),
    "the same, every tenth step": (
        "log.jsonl",
        [{"step": 10 * i, "loss": v} for i, v in enumerate(bad(60, lambda _v, _k: NAN))],
        "unexplained-nonfinite",
        600,
    ),
    "gradients that were lost first": (
        "log.csv",
        [
            {"step": i, "loss": v, "grad_norm": 1.0 if i < 59 else NAN}
            for i, v in enumerate(bad(60, lambda _v, _k: NAN))
        ],
        "unexplained-nonfinite",
        59,
    ),
    "divergence": (
        "log.csv",
        [{"iteration": i, "Loss": v} for i, v in enumerate(bad(50, lambda v, k: 4 * v + k / 5))],
        "divergence",
        50,
    ),
    "divergence under a Trainer": (
        "trainer_state.json",
        [
            {"step": i + 1, "loss": v, "grad_norm": 1 + i % 3 / 10 + 8 * (i >= 50), "learning_rate": 1e-4}
            for i, v in enumerate(bad(50, lambda v, k: 4 * v + k / 5))
        ],
        "divergence",
        51,
    ),
    "a spike with its gradient": (
        "log.csv",
        [
            {"step": i, "loss": v, "grad_norm": 1 + i % 3 / 10 + 30 * (i == 50)}
            for i, v in enumerate(bad(50, lambda v, k: 20.0 if k == 0 else v))
        ],
        "loss-spike",
        50,
    ),
    "a rate that leaps": (
        "log.csv",
        [
            {"step": i, "loss": v, "lr": 1e-3 if i < 50 else 0.1, "grad_norm": 1 + 9 * (i >= 50)}
            for i, v in enumerate(bad(50, lambda v, k: 3 * v + k / 10))
        ],
        "lr-spike",
        50,
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_in_a_log_is_named_at_its_step(tmp_path, case):
    name, rows, cause, step = FAULTS[case]
    verdict, _ = judged(tmp_path, name, rows)
    assert verdict.verdict == "anomalous"
    assert (verdict.causes[0].name, verdict.causes[0].step) == (cause, step)
    assert len(verdict.causes) == 1


def test_between_two_rows_of_a_sparse_log_the_fault_is_bounded(tmp_path):
    _, rows, _, _ = FAULTS["the same, every tenth step"]
    verdict, _ = judged(tmp_path, "log.jsonl", rows)
    assert verdict.first_anomaly is not None
    assert (verdict.first_anomaly.step_lower, verdict.first_anomaly.step) == (591, 600)


def test_what_is_no_column_of_steps_becomes_metrics(tmp_path):
    rows = [{"step": i, "loss": 1.0, "val/loss": 2.0, "Accuracy": 0.5, "note": "x"} for i in range(5)]
    import_files([write(tmp_path / "log.csv", rows)], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        found = trace.sql("SELECT DISTINCT name, source FROM metrics ORDER BY name").rows()
        assert found == [("Accuracy", "csv"), ("val/loss", "csv")]
        assert trace.sql("SELECT count(*) FROM steps WHERE loss = 1").item() == 5


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0.5\n0.4\n0.3\n", [(0, 0.5), (1, 0.4), (2, 0.3)]),
        ("0 0.5\n10 0.4\n20 0.3\n", [(0, 0.5), (10, 0.4), (20, 0.3)]),
        ("Schritt;loss\n1;0,5\n2;0,25\n", [(0, 0.5), (1, 0.25)]),
        ("\ufeffSTEP\tLOSS\n3\t1\n4\tnan\n", [(3, 1.0), (4, None)]),
        ("# step, loss\n0,1\n1,2\n", [(0, 1.0), (1, 2.0)]),
        ('#{"t_start": 5.0}\nstep,loss\n0,1\n1,2\n', [(0, 1.0), (1, 2.0)]),
        ('{"loss": [3, 2, 1], "val_loss": [4, 3, 2]}', [(0, 3.0), (1, 2.0), (2, 1.0)]),
        ('[{"train": {"loss": 3}, "step": 7}, {"train": {"loss": 2}, "step": 8}]', [(7, 3.0), (8, 2.0)]),
        ('INFO {"step": 1, "loss": "3.5"}\nINFO {"step": 2, "loss": "Infinity"}\n', [(1, 3.5), (2, None)]),
        ("Wall time,Step,Value\n1700000000.5,1,0.5\n1700000001.5,2,0.4\n", [(1, 0.5), (2, 0.4)]),
    ],
)
def test_shapes_of_logs(tmp_path, text, steps):
    path = tmp_path / "run-1-tag-train_loss.log"
    path.write_text(text)
    if text[0] in "0\ufeffS#W":
        path = path.rename(path.with_suffix(".csv"))
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        rows = trace.sql("SELECT step, CASE WHEN isfinite(loss) THEN loss END FROM steps ORDER BY step").rows()
    assert rows == steps


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.csv", "", "is empty"),
        ("numbers.csv", "1,2,3\n4,5,6\n", "no names"),
        ("words.csv", "a,b\nc,d\n", "no rows of numbers|nothing"),
        ("broken.jsonl", '{"a"\n{"b"\n{"c"\n', "no JSON|nothing"),
        ("trainer_state.json", '{"log_history": [', "no whole JSON"),
        ("trainer_state.json", '{"log_history": []}', "has no log_history"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ImportFileError, match=words) as error:
        import_files([path], tmp_path / "run", "0")
    assert name in str(error.value)
    assert not (tmp_path / "run").exists()


def test_two_files_that_contradict_each_other_are_not_mixed(tmp_path):
    a = write(tmp_path / "a.csv", [{"step": 0, "loss": 1.0}, {"step": 1, "loss": 1.0}])
    b = write(tmp_path / "b.csv", [{"step": 0, "loss": 2.0}, {"step": 1, "loss": 1.0}])
    with pytest.raises(ImportFileError, match=r"b\.csv.*one by one"):
        import_files([a, b], tmp_path / "run", "0")


def test_ranks_of_a_log_are_ranks_of_the_run(tmp_path):
    rows = [{"rank": r, "step": i, "loss": 1.0 + r} for i in range(5) for r in (0, 1)]
    import_files([write(tmp_path / "log.csv", rows)], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT rank, min(loss), count(*) FROM steps GROUP BY rank ORDER BY rank").rows() == [
            (0, 1.0, 5),
            (1, 2.0, 5),
        ]


# -- TensorBoard --------------------------------------------------------------------------------------------------------------


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def scalar(tag: str, step: int, value: float, *, tensor: bool = False) -> bytes:
    number = varint(2 << 3 | 5) + struct.pack("<f", value)
    if tensor:
        number = field(8, field(1, 1) + field(2, b"") + field(4, struct.pack("<f", value)))
    wall = varint(1 << 3 | 1) + struct.pack("<d", 1.7e9 + step)
    return record(wall + field(2, step) + field(5, field(1, field(1, tag.encode()) + number)))


VERSION = record(field(3, b"brain.Event:2"))


def test_the_checksum_is_crc_32c():
    assert _masked(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("tensor", [False, True])
def test_scalars_of_an_event_file_become_steps_and_metrics(tmp_path, tensor):
    (tmp_path / "logs" / "validation").mkdir(parents=True)
    train = tmp_path / "logs" / "events.out.tfevents.1.host.1.0"
    train.write_bytes(
        VERSION
        + b"".join(scalar("train/loss", i, 2.0 + i, tensor=tensor) + scalar("train/lr", i, 0.5) for i in range(4))
        + record(field(5, field(1, field(1, b"image") + field(4, b"png"))))
    )
    (tmp_path / "logs" / "validation" / "events.out.tfevents.2").write_bytes(VERSION + scalar("loss", 3, 9.0))
    import_files([tmp_path / "logs"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT step, loss FROM steps ORDER BY step").rows() == [(i, 2.0 + i) for i in range(4)]
        assert trace.sql("SELECT DISTINCT lr FROM param_groups").rows() == [(0.5,)]
        assert trace.sql("SELECT name, value, step FROM metrics").rows() == [("validation/loss", 9.0, 3)]
        assert trace.sql("SELECT min(time_ns) FROM steps").item() == 1_700_000_000_000_000_000
        assert "1 values" in trace.sql("SELECT message FROM events WHERE event = 'values-left-out'").item()


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_event_file_keeps_what_is_before(tmp_path, damage):
    raw = VERSION + b"".join(scalar("loss", i, 1.0) for i in range(10))
    one = len(scalar("loss", 9, 1.0))
    raw = raw[:-5] if damage == "cut" else raw[: -one + 20] + bytes([raw[-one + 20] ^ 1]) + raw[-one + 21 :]
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(raw)
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT count(*) FROM steps").item() == 9
        assert trace.sql("SELECT count(*) FROM events WHERE event = 'file-cut'").item() == 1
