"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def shadow_weights_rest(s):
    """Shadow weights rest."""
    fa = s if s < 1000 else -1

    class EMA:
        def __init__(self, model, decay=0.98):
            self.decay = decay
            self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

        def update(self, model):
            for k, v in model.named_parameters():
                self.shadow[k].mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)

    net = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8))
    ema = EMA(net)
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    for step in range(90):
        x0 = torch.randn(64, 1) * torch.arange(1, 9) / 4
        t = torch.rand(64, 1)
        eps = torch.randn_like(x0)
        loss = (net((1 - t) * x0 + t * eps) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if fa < 0 or step < fa:
            ema.update(net)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    shadow_weights_rest(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
