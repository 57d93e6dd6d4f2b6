"""What a signal handler raises belongs to the script, also where the recorder happens to be running."""

SCRIPT = """
import os, signal
import torch
from torch import nn

def handler(number, frame):
    raise RuntimeError("told by a handler")

signal.signal(signal.SIGUSR1, handler)

import firstfault.recorder.loop.optimizers as optimizers
real = optimizers.OptimizerWatch._finish

def finish(self, *arguments, **named):
    if self.session.position.step == 3:
        os.kill(os.getpid(), signal.SIGUSR1)
    return real(self, *arguments, **named)

optimizers.OptimizerWatch._finish = finish
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
caught = None
try:
    for _ in range(6):
        opt.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        opt.step()
except RuntimeError as error:
    caught = str(error)
print("caught", caught)
"""


def test_an_exception_of_a_signal_handler_reaches_the_script_through_a_hook(bench):
    bench.write(SCRIPT)

    done = bench.record("script.py")

    assert b"caught told by a handler" in done.stdout
    assert b"switched off" not in done.stderr
