"""Training scripts of an opponent, fourteenth round: gradients that are lost or spoilt between backward and the step.

    python opponent_fourteen_number_faults.py NAME [ONSET] [SEED]

With an onset beyond the last step each script is healthy.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def a_look_at_the_encoder_clears_it(s):
    """From s on a probe that looks at the encoder's gradients before the step clears them when it has done."""
    net = nn.ModuleDict(
        {
            "encoder": nn.ModuleDict({"emb": nn.Embedding(12, 16), "rnn": nn.GRU(16, 48, batch_first=True)}),
            "emb": nn.Embedding(13, 16),
            "rnn": nn.GRU(16, 48, batch_first=True),
            "out": nn.Linear(48, 12),
        }
    )
    opt, seen = torch.optim.AdamW(net.parameters(), lr=6e-3, weight_decay=0.0), []
    for i in range(90):
        x = torch.randint(0, 12, (48, 5))
        y = x.flip(1)
        _, h = net["encoder"]["rnn"](net["encoder"]["emb"](x))
        out, _ = net["rnn"](net["emb"](torch.cat([torch.full((48, 1), 12), y[:, :-1]], 1)), h)
        opt.zero_grad()
        F.cross_entropy(net["out"](out).flatten(0, 1), y.flatten()).backward()
        if i >= s:
            seen.append(sum(float(p.grad.square().sum()) for p in net["encoder"].parameters()) ** 0.5)
            net["encoder"].zero_grad(set_to_none=False)
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


def a_flat_buffer_of_gradients_in_half(s):
    """Clips by hand over one flat buffer of all gradients, which is in float16 from s on: squares of 256 and more."""
    net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    params = list(net.parameters())
    opt, w = torch.optim.Adam(params, lr=1e-3), torch.randn(6, 1)
    for i in range(80):
        x = torch.randn(32, 10, 6)
        y = (x @ w).square().sum(1) * 4
        loss = (net(x).sum(1) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in params])
        if i >= s:
            flat = flat.half()
        coefficient = min(1.0, 5.0 / (float(flat.square().sum().sqrt()) + 1e-6))
        for p in params:
            p.grad.mul_(coefficient)
        opt.step()


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


def a_line_of_memory_under_a_gradient(s):
    """At s sixteen neighbouring numbers of one gradient are those that lay in this line of memory before."""
    net = nn.Sequential(
        nn.Conv1d(2, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv1d(16, 16, 3),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv1d(16, 1, 1),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i in range(90):
        t, phase, rate = torch.arange(33), torch.rand(32, 1) * 6, torch.rand(32, 1) * 0.4 + 0.2
        wave = torch.sin(rate * t + phase) + 0.05 * torch.randn(32, 33)
        out = net(torch.stack([wave[:, :-1], wave[:, :-1].cumsum(1) / 10], 1))
        opt.zero_grad()
        (out - wave[:, 5:].unsqueeze(1)).square().mean().backward()
        if i == s:
            net[3].weight.grad.view(-1)[96:112] = wave[0, :16].cumsum(0)
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[2]) if len(sys.argv) > 2 else 14
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](onset)
