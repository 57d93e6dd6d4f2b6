"""output.log holds the end of what the script wrote."""

import random

from firstfault.recorder.supervisor.output_tail import TAIL_BYTES, OutputTail


def test_the_log_is_the_tail_of_the_stream(tmp_path):
    rng = random.Random(3)
    pieces = [rng.randbytes(rng.choice([1, 10, 500, 4000])) for _ in range(300)]
    tail = OutputTail(tmp_path / "output.log", limit=1000)
    seen = b""
    for piece in pieces:
        tail.write(piece)
        seen += piece
        on_disk = (tmp_path / "output.log").read_bytes()
        assert seen.endswith(on_disk)
        assert min(len(seen), 1000) <= len(on_disk) <= 6000
    tail.close()
    assert (tmp_path / "output.log").read_bytes() == seen[-1000:]
    assert [p.name for p in tmp_path.iterdir()] == ["output.log"]


def test_a_short_output_is_kept_whole(tmp_path):
    tail = OutputTail(tmp_path / "output.log")
    tail.write(b"all of it\n")
    tail.close()
    assert (tmp_path / "output.log").read_bytes() == b"all of it\n"


def test_the_end_of_a_long_output_of_a_real_script_is_kept(bench):
    bench.write("for i in range(100_000): print('line', i)")
    recorded = bench.record("script.py")
    log = (recorded.run / "output.log").read_bytes()
    assert len(log) == TAIL_BYTES
    assert recorded.stdout.endswith(log)
