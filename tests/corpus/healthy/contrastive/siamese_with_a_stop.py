"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


class Encoder(nn.Module):
    def __init__(self, width=16, code=12):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.code = nn.Linear(48, code)

    def forward(self, x):
        return self.code(self.body(x))


def siamese_with_a_stop():
    x, _ = blobs(width=16)
    encoder, predictor = Encoder(), nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12))
    opt = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], 2e-3)
    for _ in range(80):
        a = x[torch.randint(640, (32,))]
        z1, z2 = encoder(a + 0.3 * torch.randn_like(a)), encoder(a + 0.3 * torch.randn_like(a))
        pulled = (
            -F.cosine_similarity(predictor(z1), z2.detach()).mean()
            - F.cosine_similarity(predictor(z2), z1.detach()).mean()
        )
        apart = F.relu(1 - z1.std(0)).mean() + F.relu(1 - z2.std(0)).mean()
        opt.zero_grad()
        (pulled + apart).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    siamese_with_a_stop()
