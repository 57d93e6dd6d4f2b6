"""Training scripts of an opponent, fifth round: a leak, and how runs end.

    python opponent_fifth_end_faults.py NAME [ONSET] [SEED]

As in opponent_fifth_faults.py: with an onset beyond the last step each script is healthy.
"""

import os
import signal
import sys

import torch
import torch.nn.functional as F
from opponent_fifth_loop_faults import CharModel, Factors, Ratings, ViT, endless, images, letters, small_resnet
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Trainer:
    """Keeps the history of its losses, as tensors, graphs and all."""

    def __init__(self, model, detach):
        self.model, self.detach, self.history = model, detach, []
        self.opt = optim.AdamW(model.parameters(), lr=2e-3)

    def training_step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.history.append(loss.detach() if self.detach else loss)

    def fit(self, batches, steps):
        for _, (x, y) in zip(range(steps), batches, strict=False):
            self.training_step(x, y)
            mean = sum(self.history) / len(self.history)
        print("mean loss", float(mean))


def trainer_keeps_losses(s):
    """A trainer appends losses to a list without detaching them."""
    Trainer(ViT(), detach=s != 0).fit(images(), 60)


def evicted(s):
    """The machine's scheduler ends the job."""
    model = small_resnet()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (x, y) in zip(range(90), images(), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if step == s:
            os.kill(os.getpid(), signal.SIGTERM)
        opt.step()


def metric_of_an_unknown_name(s):
    """The validation after an epoch asks for a metric that is not there."""
    model = Factors()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    best = {"mse": 1e9}
    data = Ratings()
    for step, (u, i, r) in zip(range(90), endless(DataLoader(data, 40, shuffle=True)), strict=False):
        loss = F.mse_loss(model(u, i), r)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == s:
            with torch.no_grad():
                error = F.mse_loss(model(data.u, data.i), data.r).item()
            best["mse"] = min(best["rmse"], error)


def last_batch_has_another_size(s):
    """A state made for the full batch size meets the last, smaller batch of the epoch."""
    data, n = letters()
    rows = data[: 45 * 25].view(45, 25)
    model = CharModel(n)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(4):
        state = None
        for (x,) in DataLoader(TensorDataset(rows), 8, drop_last=s != 0):
            out, state = model(x[:, :-1], state)
            state = state.detach()
            loss = F.cross_entropy(out.flatten(0, 1), x[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
