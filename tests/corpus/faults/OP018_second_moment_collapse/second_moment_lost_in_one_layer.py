"""A training with the fault second-moment-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def second_moment_lost_in_one_layer(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.Adam(model.parameters(), 3e-3, betas=(0.9, 0.99))
    for i in range(32):
        if i == s:
            opt.state[model.out.weight]["exp_avg_sq"] *= 1e-6
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    second_moment_lost_in_one_layer(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
