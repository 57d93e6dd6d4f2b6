"""What experiment trackers leave on disk: W&B's file and export, MLflow's folder; and folders that hold many things."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def item(name: str, value: Any) -> bytes:
    keys = b"".join(field(2, part.encode()) for part in name.split(".")) if "." in name else field(1, name.encode())
    return field(1, keys + field(16, json.dumps(value).encode()))


def wandb_file(records: list[bytes]) -> bytes:
    """Records as a LevelDB log of 32 KiB blocks behind W&B's header."""
    out = bytearray(struct.pack("<4sHB", b":W&B", 0xBEE1, 0))
    for record in records:
        rest, begun = record, False
        while True:
            room = (1 << 15) - len(out) % (1 << 15)
            if room < 7:
                out += bytes(room)
                continue
            piece, rest = rest[: room - 7], rest[room - 7 :]
            kind = (3 if rest else 4) if begun else (2 if rest else 1)
            begun = True
            out += struct.pack("<IHB", zlib.crc32(piece, zlib.crc32(bytes((kind,)))), len(piece), kind) + piece
            if not rest:
                break
    return bytes(out)


def history(step: int, **values: Any) -> bytes:
    named = {"_step": step, "_timestamp": 1.7e9 + step, **values}
    return field(1, step + 1) + field(2, b"".join(item(n, v) for n, v in named.items()) + field(2, field(1, step)))


def rows(n: int) -> list[bytes]:
    config = field(5, item("lr", {"value": 0.1}) + item("seed", 7))
    return [config, *(history(i, loss=3.0 - i / n, **{"val.acc": 0.5, "text": "x" * 300}) for i in range(n))]


def imported(tmp_path: Path, *paths: Path) -> Trace:
    import_files(list(paths), tmp_path / "run", "0")
    return Trace(tmp_path / "run")


def test_the_history_of_a_wandb_file_becomes_curves(tmp_path):
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(wandb_file(rows(300)))
    with imported(tmp_path, path) as trace:
        assert trace.sql("SELECT count(*), min(loss), min(time_ns) FROM steps").row(0) == (
            300, pytest.approx(3 - 299 / 300), 1_700_000_000_000_000_000,
        )  # fmt: skip
        assert trace.sql("SELECT DISTINCT name FROM metrics").rows() == [("val/acc",)]
        assert trace.manifest.config == {"seed": 7}


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_wandb_file_keeps_what_is_before(tmp_path, damage):
    raw = bytearray(wandb_file(rows(50)))
    if damage == "flipped":
        raw[-20] ^= 1
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(bytes(raw[:-9]) if damage == "cut" else bytes(raw))
    with imported(tmp_path, path) as trace:
        assert trace.sql("SELECT count(*) FROM steps").item() == 49
        assert trace.sql("SELECT count(*) FROM events WHERE event = 'file-cut'").item() == 1


def test_a_wandb_file_without_history_is_refused(tmp_path):
    (tmp_path / "run-abc.wandb").write_bytes(wandb_file([field(1, 1)]))
    with pytest.raises(ImportFileError, match=r"run-abc\.wandb: holds no history"):
        imported(tmp_path, tmp_path / "run-abc.wandb")


def test_a_chart_that_wandb_exports_has_plain_names(tmp_path):
    path = tmp_path / "wandb_export_2024.csv"
    path.write_text(
        '"Step","fine-sun-1 - train/loss","fine-sun-1 - train/loss__MIN","fine-sun-1 - train/loss__MAX"\n'
        + "".join(f'"{i}","{9 - i}","{9 - i}","{9 - i}"\n' for i in range(5))
    )
    with imported(tmp_path, path) as trace:
        assert trace.sql("SELECT step, loss FROM steps ORDER BY step LIMIT 2").rows() == [(0, 9.0), (1, 8.0)]
        assert not trace.has("metrics")


def test_an_export_of_several_runs_is_refused_with_their_names(tmp_path):
    path = tmp_path / "wandb_export_2024.csv"
    path.write_text('"Step","a-1 - loss","a-1 - loss__MIN","b-2 - loss","b-2 - loss__MIN"\n"0","1","1","2","2"\n')
    with pytest.raises(ImportFileError, match=r"holds 2 runs of W&B \(a-1, b-2\)"):
        imported(tmp_path, path)


def mlflow_run(folder: Path) -> Path:
    (folder / "metrics" / "train").mkdir(parents=True)
    (folder / "params").mkdir()
    (folder / "meta.yaml").write_text("run_id: x\n")
    (folder / "params" / "lr").write_text("0.1")
    (folder / "metrics" / "train" / "loss").write_text(
        "".join(f"{1700000000000 + i} {3 - i / 9} {i}\n" for i in range(9))
    )
    (folder / "metrics" / "val_acc").write_text("1700000000009 nan 8\n")
    return folder


def test_the_folder_of_an_mlflow_run_is_one_run(tmp_path):
    with imported(tmp_path, mlflow_run(tmp_path / "mlruns" / "0" / "abc")) as trace:
        assert trace.sql("SELECT count(*), max(loss), min(time_ns) FROM steps").row(0) == (
            9,
            3.0,
            1_700_000_000_000_000_000,
        )
        assert trace.manifest.config == {"lr": "0.1"}


def test_a_folder_of_several_mlflow_runs_is_refused(tmp_path):
    for name in ("a", "b"):
        mlflow_run(tmp_path / "mlruns" / "0" / name)
    with pytest.raises(ImportFileError, match="2 MLflow runs"):
        imported(tmp_path, tmp_path / "mlruns")


def test_a_folder_gives_all_that_is_known_and_lists_what_is_left_out(tmp_path):
    folder = tmp_path / "out"
    (folder / "checkpoint-10").mkdir(parents=True)
    (folder / "checkpoint-20").mkdir()
    for n in (10, 20):
        log = [{"step": i, "loss": 3.0 - i / 30} for i in range(1, n + 1)]
        (folder / f"checkpoint-{n}" / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "notes.txt").write_text("a note\n")
    (folder / "train.log").write_text("".join(f"iter {i}: loss {3 - i / 30:.4f}, time 1ms\n" for i in range(1, 21)))
    with imported(tmp_path, folder) as trace:
        assert trace.sql("SELECT count(*) FROM steps").item() == 20
        left = trace.sql("SELECT message FROM events WHERE event = 'file-left-out' ORDER BY message")[
            "message"
        ].to_list()
    assert len(left) == 4
    for part in (
        "an earlier state of",
        "notes.txt",
        "1 .safetensors",
        "train.log: may hold the curves that the trainer_state",
    ):
        assert any(part in words for words in left)


def test_a_folder_in_which_nothing_is_known_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.py").write_text("loss = 1\n")
    with pytest.raises(ImportFileError, match="no file in this folder is known"):
        imported(tmp_path, tmp_path / "out")
