"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Ema:
    """Averages by name; every update puts new tensors there."""

    def __init__(self, model, decay=0.95):
        self.decay = decay
        self.shadow = {key: value.clone() for key, value in model.state_dict().items()}

    def update(self, model):
        for key, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                self.shadow[key] = self.decay * self.shadow[key] + (1 - self.decay) * value


def averages_put_anew_are_put_no_more(s):
    """A dictionary of averages is filled with new tensors at each step, and from some step on no longer."""
    things = torch.randn(5, 12)
    make = lambda: nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5))  # noqa: E731
    net, shown = make(), make()
    ema = Ema(net)
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for step in range(s + 45 if s < 1000 else 80):
        y = torch.randint(5, (48,))
        loss = F.cross_entropy(net(things[y] + torch.randn(48, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step < s:
            ema.update(net)
        if step % 20 == 19:
            shown.load_state_dict(ema.shadow)
            shown.eval()
            with torch.no_grad():
                print(step, (shown(things).argmax(1) == torch.arange(5)).float().mean().item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    averages_put_anew_are_put_no_more(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
