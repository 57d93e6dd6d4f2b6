"""A training with the fault exploding-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Recurrent(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.rnn = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.rnn.weight_hh_l0)
        self.rnn.weight_hh_l0.data.mul_(gain)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def adding_problem(s):
    """The adding problem over forty steps with a recurrent ReLU that amplifies."""
    model = Recurrent(1.4 if s == 0 else 0.95)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(60):
        x = torch.rand(32, 40, 2)
        x[..., 1] = 0
        x[torch.arange(32), torch.randint(20, (32,)), 1] = 1
        x[torch.arange(32), torch.randint(20, 40, (32,)), 1] = 1
        y = (x[..., 0] * x[..., 1]).sum(1, keepdim=True)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adding_problem(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
