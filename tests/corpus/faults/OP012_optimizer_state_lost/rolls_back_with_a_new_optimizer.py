"""A training with the fault optimizer-state-lost; arguments: [ONSET] [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class OwnAdam(torch.optim.Optimizer):
    """Adam with a counter and moments under names of its own."""

    def __init__(self, params, lr=6e-3, beta1=0.9, beta2=0.995):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["beta1"], group["beta2"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                mean, square = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
                p.addcdiv_(mean, square.sqrt().add_(1e-8), value=-group["lr"])


def rolls_back_with_a_new_optimizer(s):
    """At s the best weights so far come back, their moments do not."""
    series = torch.sin(torch.arange(3000) / 10) * (0.6 + 0.4 * torch.cos(torch.arange(3000) / 70)) + 0.05 * torch.randn(
        3000
    )
    net = nn.ModuleDict({"rnn": nn.GRU(1, 32, batch_first=True), "head": nn.Linear(32, 1)})
    opt, best, kept = OwnAdam(net.parameters()), float("inf"), None
    for i in range(100):
        if i == min(s, 40):
            net.load_state_dict(kept[0])
            if i == s:
                opt = OwnAdam(net.parameters())
            else:
                opt.load_state_dict(kept[1])
        w = torch.stack([series[k : k + 25] for k in torch.randint(0, 2970, (16,)).tolist()]).unsqueeze(-1)
        opt.zero_grad()
        loss = F.mse_loss(net["head"](net["rnn"](w[:, :-1])[0]), w[:, 1:])
        loss.backward()
        opt.step()
        if loss.item() < best:
            best, kept = loss.item(), (copy.deepcopy(net.state_dict()), copy.deepcopy(opt.state_dict()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rolls_back_with_a_new_optimizer(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
