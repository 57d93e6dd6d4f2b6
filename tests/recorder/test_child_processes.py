"""Children of a script are recorded to their last step, or counted where their rank is taken; workers are none."""

import json

import pytest
from firstfault.schemas.files.layout import unrecorded_path

CHILDREN = """
    import multiprocessing as mp, os, sys, torch

    def train(fails):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(10):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
            if fails and i == 5:
                raise ValueError("five")

    if __name__ == "__main__":
        import torch._dynamo  # by the first optimizer of a process: here once for all that are forked
        how, fails, count = sys.argv[1], sys.argv[2] == "fails", int(sys.argv[3])
        for _ in range(count):
            if how == "os.fork":
                if os.fork() == 0:
                    train(fails)
                    sys.exit(0)
                os.wait()
            else:
                child = mp.get_context(how).Process(target=train, args=(fails,))
                child.start()
                child.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["fork", *(pytest.param(h, marks=pytest.mark.suite) for h in ("spawn", "forkserver", "os.fork"))]
)
def test_a_child_that_trains_is_recorded_to_its_last_step_and_exception(how, bench, training_of):
    bench.write(CHILDREN)

    recorded = bench.record("script.py", how, "fails", "1")

    assert recorded.returncode == 0
    assert [row["step"] for row in training_of(bench.run).rows("steps")] == list(range(6))
    exception = recorded.exit.exception
    assert exception is not None
    assert (recorded.exit.status, exception.type, exception.step) == ("completed", "ValueError", 5)


@pytest.mark.slow
def test_a_process_that_trains_as_a_rank_already_recorded_is_counted_and_said(bench, training_of):
    bench.write(CHILDREN)

    recorded = bench.record("script.py", "fork", "well", "3")

    assert [row["step"] for row in training_of(bench.run).rows("steps")] == list(range(10))
    assert recorded.stderr.count(b"[rank-taken]") == 2
    assert len(list(unrecorded_path(bench.run, 0, 0).parent.iterdir())) == 2
    assert recorded.exit.exception is None
    assert "2 further processes trained as a rank that was recorded already" in (recorded.exit.note or "")


@pytest.mark.slow
def test_a_dataset_that_trains_something_in_its_workers_does_not_take_the_rank(bench, training_of):
    bench.write("""
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Fitted(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                inner = torch.nn.Linear(1, 1)
                inner(torch.ones(1)).backward()
                return inner.weight.grad[0]

        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(Fitted(), batch_size=2, num_workers=2, multiprocessing_context="fork"):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    """)

    recorded = bench.record("script.py")

    assert recorded.returncode == 0
    assert [row["step"] for row in training_of(bench.run).rows("steps")] == [0, 1, 2, 3]
    assert json.loads((bench.run / "exit.json").read_text("utf-8"))["recorded_ranks"] == 1
    assert recorded.exit.note is None
