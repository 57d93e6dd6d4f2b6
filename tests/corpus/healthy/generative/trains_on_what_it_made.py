"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def trains_on_what_it_made():
    model = nn.ModuleDict({"e": nn.Embedding(20, 16), "r": nn.GRU(16, 32, batch_first=True), "o": nn.Linear(32, 20)})
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(60):
        ids = (torch.randint(20, (16, 1)) + torch.arange(8)) % 20
        loss = F.cross_entropy(model["o"](model["r"](model["e"](ids[:, :-1]))[0]).flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss)
        if i % 10 == 9:
            model.eval()
            with torch.inference_mode():
                token, state = torch.zeros(1, 1, dtype=torch.long), None
                for _ in range(12):
                    out, state = model["r"](model["e"](token), state)
                    token = torch.multinomial(model["o"](out[:, -1]).softmax(-1), 1)
            model.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    trains_on_what_it_made()
