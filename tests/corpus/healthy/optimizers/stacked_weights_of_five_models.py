"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

torch.set_num_threads(1)


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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    stacked_weights_of_five_models()
