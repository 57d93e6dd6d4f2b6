"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def several_seeds_as_one_batch():
    models = [nn.Linear(6, 1) for _ in range(5)]
    params, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    x = torch.randn(640, 6)
    y = x.sum(1, keepdim=True)
    opt = torch.optim.SGD(list(params.values()), 0.05)

    def one(p, b, a):
        return torch.func.functional_call(base, (p, b), (a,))

    for i in range(40):
        s = slice(i * 16, i * 16 + 16)
        out = torch.vmap(one, (0, 0, None))(params, buffers, x[s])
        step(opt, (out - y[s]).pow(2).mean((1, 2)).sum())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    several_seeds_as_one_batch()
