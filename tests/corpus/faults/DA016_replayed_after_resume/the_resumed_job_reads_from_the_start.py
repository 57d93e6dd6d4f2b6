"""A training with the fault replayed-after-resume; arguments: [ONSET] [SEED]."""

import io
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

torch.set_num_threads(1)


class FromStart(Sampler):
    """An order by seed and epoch, from a place on."""

    def __init__(self, n, start=0):
        self.n, self.start = n, start

    def __iter__(self):
        order = torch.randperm(self.n, generator=torch.Generator().manual_seed(6)).tolist()
        yield from order[self.start :]

    def __len__(self):
        return self.n - self.start


def the_resumed_job_reads_from_the_start(s):
    """At s a stopped job comes back with its state, and a sampler that begins the epoch anew."""
    x = torch.randint(0, 12, (1600, 20))
    data = TensorDataset(x, (x + x.roll(1, 1)) % 4)
    stop, done, saved = min(s, 40), 0, None
    for until in (stop, 110):
        net = nn.ModuleDict(
            {"emb": nn.Embedding(12, 24), "rnn": nn.GRU(24, 48, batch_first=True), "out": nn.Linear(48, 4)}
        )
        opt = torch.optim.RMSprop(net.parameters(), lr=1e-2)
        sampler = FromStart(1600)
        if saved is not None:
            state = torch.load(io.BytesIO(saved))
            net.load_state_dict(state["net"])
            opt.load_state_dict(state["opt"])
            sampler.start = 0 if done == s else state["read"]
        while done < until:
            for a, b in DataLoader(data, batch_size=16, sampler=sampler):
                opt.zero_grad()
                F.cross_entropy(net["out"](net["rnn"](net["emb"](a))[0]).flatten(0, 1), b.flatten()).backward()
                opt.step()
                done += 1
                if done == until:
                    break
            else:
                sampler.start = 0
        file = io.BytesIO()
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "read": 16 * done}, file)
        saved = file.getvalue()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    the_resumed_job_reads_from_the_start(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
