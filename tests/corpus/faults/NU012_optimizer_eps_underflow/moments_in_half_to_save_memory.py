"""A training with the fault optimizer-eps-underflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class LeanAdam(torch.optim.Optimizer):
    """Adam that keeps its moments in a smaller dtype, and the weights in float32."""

    def __init__(self, params, lr, dtype, eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "eps": eps, "dtype": dtype})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), dtype = group["betas"], group["dtype"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s["step"] = 0
                    s["exp_avg"], s["exp_avg_sq"] = torch.zeros_like(p, dtype=dtype), torch.zeros_like(p, dtype=dtype)
                s["step"] += 1
                grad = p.grad.to(dtype)
                s["exp_avg"].mul_(b1).add_(grad, alpha=1 - b1)
                s["exp_avg_sq"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
                root = s["exp_avg_sq"].div(1 - b2 ** s["step"]).sqrt_().add_(group["eps"])
                p.add_((s["exp_avg"] / root).float(), alpha=-group["lr"] / (1 - b1 ** s["step"]))


def moments_in_half_to_save_memory(s):
    """Weights are in float32, moments in float16: small squares are zero there, and so is eps."""
    users, items = torch.randn(120, 6), torch.randn(80, 6)
    tower = nn.ModuleDict({"user": nn.EmbeddingBag(120, 12), "item": nn.EmbeddingBag(80, 12), "mix": nn.Linear(24, 1)})
    opt = LeanAdam(tower.parameters(), 2e-2, torch.float16 if s == 0 else torch.float32)
    for _ in range(70):
        u, v = torch.randint(0, 120, (512, 1)), torch.randint(0, 80, (512, 1))
        a, b = tower["user"](u), tower["item"](v)
        out = (a * b).sum(1) + tower["mix"](torch.cat([a, b], 1)).squeeze(1)
        loss = F.mse_loss(out, (users[u[:, 0]] * items[v[:, 0]]).sum(1) / 2)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    moments_in_half_to_save_memory(onset)
