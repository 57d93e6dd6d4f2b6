"""Files that are torn, packed twice, misnamed, hostile or odd: all that is whole is read, or one line says what to do."""

import gzip
import json
import resource
from pathlib import Path

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import curves, import_files

ROWS = "".join(f"{i},{3 - i / 20}\n" for i in range(20))
CSV = f"step,loss\n{ROWS}".encode()


def packed(raw: bytes) -> bytes:
    return gzip.compress(raw, mtime=0)  # every worker must collect the same tests


def named(value: object) -> str:
    """The name of a case without its bytes."""
    return value if isinstance(value, str) else ""


def steps_of(tmp_path: Path, name: str, raw: bytes) -> list[tuple[int, float]]:
    path = tmp_path / name
    path.write_bytes(raw)
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        return trace.sql("SELECT step, loss FROM steps WHERE loss IS NOT NULL ORDER BY step").rows()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("packed.csv.gz", packed(CSV)),
        ("packed_twice.csv.gz.gz", packed(packed(CSV))),
        ("no_suffix", CSV),
        ("misnamed.json", CSV),
        ("misnamed.csv", json.dumps([{"step": i, "loss": 3 - i / 20} for i in range(20)]).encode()),
        ("windows.csv", CSV.replace(b"\n", b"\r\n")),
        ("old_mac.csv", CSV.replace(b"\n", b"\r")),
        ("mark.csv", b"\xef\xbb\xbf" + CSV),
        ("wide.csv", CSV.decode().encode("utf-16")),
        ("comma.csv", b"step;loss\n" + ROWS.replace(",", ";").replace(".", ",").encode()),
        ("space.txt", CSV.replace(b",", b"   ")),
        ("zeros_at_the_end.csv", CSV + bytes(100)),
    ],
    ids=named,
)
def test_what_is_whole_is_read_however_it_is_wrapped(tmp_path, name, raw):
    found = steps_of(tmp_path, name, raw)
    assert len(found) == 20
    assert found[10] == (10, 2.5)


@pytest.mark.parametrize(
    ("name", "raw", "rows"),
    [
        ("torn.csv", CSV[:-4], 20),
        ("torn.csv.gz", packed(CSV * 3)[:-30], 1),
        ("torn.jsonl", b"".join(b'{"step": %d, "loss": 1.0}\n' % i for i in range(9)) + b'{"step": 9, "lo', 9),
        ("tokens.jsonl", b'{"step": 0, "loss": NaN}\n{"step": 1, "loss": Infinity}\n{"step": 2, "loss": 1}\n', 3),
    ],
    ids=named,
)
def test_of_a_torn_file_all_that_is_whole_is_read(tmp_path, name, raw, rows):
    assert len(steps_of(tmp_path, name, raw)) >= rows


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("deep.json", b"[" * 100_000),
        ("deep_object.json", b'{"a":' * 100_000),
        ("deep.jsonl", b'{"step": 1, "loss": ' + b"[" * 100_000 + b"\n"),
        ("deep_log.json", b'{"log_history": ' + b"[" * 100_000),
        ("noise.bin", bytes(range(256)) * 40),
        ("half_a_zip.csv", b"PK\x03\x04" + bytes(400)),
        ("text.txt", b"nothing to see\n" * 100),
        ("torn.json", b'[{"step": 1, "loss": 2'),
        ("cell.csv", b'step,loss\n1,"' + b"x" * 200_000 + b'"\n'),
    ],
    ids=named,
)
def test_what_cannot_be_read_is_refused_in_one_line_that_names_the_file(tmp_path, name, raw):
    with pytest.raises(ImportFileError) as error:
        steps_of(tmp_path, name, raw)
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_file_that_does_not_fit_into_memory_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "_LARGEST", 100)
    with pytest.raises(ImportFileError, match=r"large\.csv: holds more than .* keep every tenth row"):
        steps_of(tmp_path, "large.csv", CSV)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"[[1700000000000000, 1700000000000900], [[0, 4096], [0, 0]]]", "memory timeline"),
    ],
    ids=named,
)
def test_what_the_profiler_writes_beside_traces_is_known_and_refused(tmp_path, raw, words):
    with pytest.raises(ImportFileError, match=words):
        steps_of(tmp_path, "profile.json", raw)


EVENT = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
TRACE = json.dumps({"traceEvents": [EVENT] * 30}).encode()


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("misnamed.csv", TRACE),
        ("no_suffix", TRACE),
        ("not_packed.json.gz", TRACE),
        ("packed.json", packed(TRACE)),
        ("packed_twice.json.gz.gz", packed(packed(TRACE))),
        ("mark.json", b"\xef\xbb\xbf" + TRACE),
        ("windows.json", json.dumps({"traceEvents": [EVENT] * 30}, indent=1).replace("\n", "\r\n").encode()),
        ("zeros_at_the_end.json", TRACE + bytes(5000)),
        ("tokens.json", TRACE.replace(b'"dur": 2.0', b'"dur": NaN, "args": {"a": Infinity, "b": -Infinity}')),
        ("no_end.json", TRACE[:-2]),
        ("two_packed_on_end.json.gz", packed(TRACE[:700]) + packed(TRACE[700:])),
    ],
    ids=named,
)
def test_every_event_of_a_trace_is_read_however_it_is_wrapped(tmp_path, name, raw):
    path = tmp_path / name
    path.write_bytes(raw)
    import_files([path], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT count(*) FROM profiler_events WHERE name = 'op'").item() == 30


HEADS = {
    "large.json": TRACE[:-2],
    "large.csv": CSV,
    "large.jsonl": b'{"step": 1, "loss": 2.0}\n' * 20,
    "large.log": b"step 1 loss 2.0\n" * 20,
    "large.pickle": b"\x80\x04}\x94.",
    "events.out.tfevents.1.host": b"\x18\0\0\0\0\0\0\0" + bytes(20),
    "et.json": b'{"schema": "1.1.0", "nodes": [{"ctrl_deps": 1, "name": "a"}',
    "memory.json": b"[[1700000000000000, 1700000000000900], [[0, 4096]",
    "trainer_state.json": b'{"log_history": [{"loss": 1.0, "step": 1}',
}
"""How large files begin of which nothing but zeros follows."""


@pytest.mark.parametrize("size", [30_000_000, pytest.param(400_000_000, marks=pytest.mark.suite)])
@pytest.mark.parametrize("name", HEADS)
def test_a_file_of_which_the_most_is_zeros_gives_what_is_whole_or_one_line(tmp_path, name, size):
    path = tmp_path / name
    path.write_bytes(HEADS[name])
    with path.open("r+b") as file:
        file.truncate(size)  # sparse: it takes no room
    said, found = "", 0
    try:
        import_files([path], tmp_path / "run", "0")
    except ImportFileError as e:
        said = str(e)
    else:
        with Trace(tmp_path / "run") as trace:
            found = trace.sql("SELECT (SELECT count(*) FROM profiler_events) + (SELECT count(*) FROM steps)").item()
    assert found or name in said
    assert "\n" not in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3_000_000  # KB, of all tests of this process
