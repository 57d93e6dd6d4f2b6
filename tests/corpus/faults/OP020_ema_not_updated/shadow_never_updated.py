"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

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


class EMA:
    """Averages of a model's weights, by name."""

    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    def update(self, model):
        for n, p in model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)


def shadow_never_updated(s):
    x = torch.randn(400, 8, 3)
    y = x.sum((1, 2))[:, None]
    model = Sums()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    ema = EMA(model)
    for _ in range(40):
        pick = torch.randint(400, (16,))
        loss = F.mse_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(sum(float(v.sum()) for v in ema.shadow.values()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    shadow_never_updated(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
