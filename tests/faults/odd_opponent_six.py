"""Healthy runs that look odd, by an opponent, sixth round: `python odd_opponent_six.py NAME [SEED]`."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

torch.set_num_threads(1)


def inner_steps_of_meta_learning():
    """MAML with torch.func.functional_call: inner step by autograd.grad, outer Adam."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    meta = torch.optim.Adam(net.parameters(), 5e-3)

    def task():
        a, b = 0.5 + 2 * torch.rand(()), math.pi * torch.rand(())
        return lambda x: a * torch.sin(x + b)

    for _it in range(60):
        params = dict(net.named_parameters())
        total = 0
        for _ in range(4):
            f = task()
            xs, xq = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
            g = torch.autograd.grad(
                (functional_call(net, params, (xs,)) - f(xs)).square().mean(), params.values(), create_graph=True
            )
            fast = {k: p - 0.05 * d for (k, p), d in zip(params.items(), g, strict=False)}
            total = total + (functional_call(net, fast, (xq,)) - f(xq)).square().mean()
        meta.zero_grad()
        (total / 4).backward()
        meta.step()


def pictures_disturbed_on_purpose():
    """Adversarial training: input gradients, then a second pass on the perturbed batch."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    pat = torch.randn(3, 1, 8, 8)
    for _i in range(80):
        y = torch.randint(0, 3, (24,))
        x = (pat[y] + 0.3 * torch.randn(24, 1, 8, 8)).requires_grad_(True)
        (g,) = torch.autograd.grad(F.cross_entropy(net(x), y), x)
        adv = (x + 0.2 * g.sign()).detach()
        loss = 0.5 * F.cross_entropy(net(x.detach()), y) + 0.5 * F.cross_entropy(net(adv), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def stacked_weights_of_five_models():
    """Ensemble by vmap over stacked parameters: the optimizer holds plain tensors, the modules are only a template."""
    nets = [nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1)) for _ in range(5)]
    params, _buffers = stack_module_state(nets)
    params = {k: v.detach().requires_grad_() for k, v in params.items()}
    base = copy.deepcopy(nets[0]).to("meta")
    opt = torch.optim.Adam(params.values(), 5e-3)
    f = vmap(lambda p, x: functional_call(base, p, (x,)), in_dims=(0, None))
    for _i in range(80):
        x = torch.randn(32, 4)
        y = x[:, :1] * x[:, 1:2]
        loss = (f(params, x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def three_quantiles_against_one_target():
    """Quantile regression by broadcasting (B,1) targets against (B,3) predictions on purpose, pinball loss."""
    net = nn.Sequential(nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    tau = torch.tensor([0.1, 0.5, 0.9])
    for _i in range(120):
        x = torch.randn(48, 5)
        y = x[:, :1] + torch.randn(48, 1)
        e = y - net(x)
        loss = torch.maximum(tau * e, (tau - 1) * e).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def all_pairs_on_purpose():
    """Ranking loss over all pairs: (B,1) minus (1,B) on purpose."""
    net = nn.Sequential(nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for _i in range(100):
        x = torch.randn(32, 5)
        y = x.sum(1)
        s = net(x)
        loss = nn.functional.softplus(-(s - s.T) * torch.sign(y[:, None] - y[None])).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def lazy_layers_and_parametrizations():
    """Lazy modules, parametrizations (spectral norm, weight norm), forward hooks of the user, in-place ReLU."""
    net = nn.Sequential(
        nn.LazyConv2d(8, 3),
        nn.ReLU(inplace=True),
        spectral_norm(nn.Conv2d(8, 8, 3)),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        weight_norm(nn.Linear(8 * 36, 16)),
        nn.ReLU(),
        nn.LazyLinear(4),
    )
    net(torch.randn(2, 1, 10, 10))
    seen = []
    net[4].register_forward_hook(lambda m, i, o: seen.append(o.detach().mean().item()))
    opt = torch.optim.NAdam(net.parameters(), 2e-3)
    pat = torch.randn(4, 1, 10, 10)
    for _i in range(60):
        y = torch.randint(0, 4, (16,))
        x = pat[y] + 0.5 * torch.randn(16, 1, 10, 10)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def two_hundred_rare_labels():
    """Extreme multi-label: 200 labels, 1 % positive, BCE with pos_weight; loss starts high; final bias init at log prior."""
    net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 200))
    nn.init.constant_(net[2].bias, math.log(0.01 / 0.99))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    table = torch.randn(30, 200)
    for _i in range(100):
        x = torch.randn(32, 30)
        y = ((x @ table) > 13).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y, pos_weight=torch.full((200,), 20.0))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
