"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def a_buffer_of_transitions_that_fills():
    class Replay:
        def __init__(self, room):
            self.room, self.store, self.at = room, [], 0

        def push(self, item):
            if len(self.store) < self.room:
                self.store.append(item)
            else:
                self.store[self.at] = item
            self.at = (self.at + 1) % self.room

    replay = Replay(160)
    x = torch.randn(640, 14)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(70):
        for k in range(6):
            replay.push((torch.randn(4096) + i, k))
        idx = torch.randint(len(replay.store), (16,))
        target = torch.stack([replay.store[int(n)][0][:3] for n in idx])
        opt.zero_grad()
        F.smooth_l1_loss(model(x[idx]), target / 70).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_buffer_of_transitions_that_fills()
