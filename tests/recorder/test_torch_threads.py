"""A change of the threads that torch computes with is an event."""

import torch
from torch import nn


def test_the_step_in_which_the_number_of_threads_changes_is_told(train) -> None:
    model = nn.Linear(4, 2)
    threads = torch.get_num_threads()
    try:
        done = train(
            model,
            lambda step: model(torch.ones(2, 4)).sum(),
            before=lambda step: torch.set_num_threads(threads + (step >= 3)),
        )
    finally:
        torch.set_num_threads(threads)
    (told,) = done.events("threads-changed")
    assert (told["step"], told["detail"]) == (3, {"threads": threads + 1, "before": threads})
