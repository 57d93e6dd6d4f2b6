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


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24, padding_idx=0)
        self.encoder, self.decoder = nn.GRU(24, 48, batch_first=True), nn.GRUCell(24, 48)
        self.out = nn.Linear(48, 20)

    def forward(self, source, target, teacher):
        _, h = self.encoder(self.embed(source))
        h, token, outs = h[0], torch.ones(len(source), dtype=torch.long), []
        for t in range(target.shape[1]):
            h = self.decoder(self.embed(token), h)
            logits = self.out(h)
            outs.append(logits)
            token = target[:, t] if torch.rand(1) < teacher else logits.argmax(1)
        return torch.stack(outs, 1)


def teacher_forcing():
    model = Translator()
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for i in range(80):
        source = torch.randint(2, 20, (24, 6))
        lengths = torch.randint(3, 7, (24,))
        source = source * (torch.arange(6) < lengths[:, None])
        logits = model(source, source.flip(1), max(0.2, 1 - i / 60))
        step(opt, F.cross_entropy(logits.flatten(0, 1), source.flip(1).flatten(), ignore_index=0), 1.0)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    teacher_forcing()
