"""Training scripts after an opponent's, twenty-third round: a guard that hides its reason, and a resume that forgets train mode.

    python opponent_twentythree_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def silent_clips_are_left_out(s):
    """From batch s on some clips are silent and their logarithm is infinite; the loop drops every batch with a bad loss."""
    model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 5))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    turn = torch.randn(24, 5)
    for i in range(200):
        power = torch.rand(32, 24) + 0.05
        if i >= s and (i - s) % 5 < 2:
            power[i % 32] = 0.0
        x = power.log() + 1.0
        loss = F.cross_entropy(model(x), (power @ turn).argmax(1))
        opt.zero_grad()
        if torch.isfinite(loss):
            loss.backward()
            opt.step()


def resumed_as_for_scoring(s):
    """At step s the job is restarted by a loader that scoring uses too, and trains on in eval mode."""
    saved = None
    turn = torch.randn(10, 4)
    for first, last in ((0, min(s, 110)), (min(s, 110), 220)):
        model = nn.Sequential(nn.Linear(10, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.1), nn.Linear(40, 4))
        opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        if saved is not None:
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["opt"])
            model.train(s > 220)
        for _ in range(first, last):
            x = torch.randn(48, 10)
            loss = F.cross_entropy(model(x), (x @ turn).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()
        saved = {"model": model.state_dict(), "opt": opt.state_dict()}


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 80)
