"""What workers draw is told: states of generators before and after their first batch."""

import os

import pytest
from firstfault.recorder.watches.worker_randomness import file_of_workers


def test_workers_with_copies_of_a_generator_are_in_the_same_states(events_of_reading) -> None:
    found = events_of_reading("noise", 2)

    assert {(e["epoch"], e["worker"]) for e in found} == {(epoch, worker) for epoch in range(3) for worker in range(2)}
    assert len({(e["generator"], e["before"], e["after"]) for e in found}) == 1


@pytest.mark.parametrize("kind", ["seeds", "seeds at the first sample"])
def test_workers_that_seed_it_are_in_different_states(events_of_reading, kind: str) -> None:
    found = events_of_reading(kind, 2)

    assert len(found) == 6
    assert len({e["after"] for e in found}) == 6


def test_workers_that_write_at_once_lose_no_line() -> None:
    file = file_of_workers()
    workers = []
    for worker in range(4):
        process = os.fork()
        if process == 0:
            for number in range(5000):
                os.write(file, b"%d %06d\n" % (worker, number))
            os._exit(0)
        workers.append(process)
    for process in workers:
        os.waitpid(process, 0)

    lines = os.pread(file, os.fstat(file).st_size, 0).split(b"\n")[:-1]
    os.close(file)
    assert len(set(lines)) == len(lines) == 20_000
