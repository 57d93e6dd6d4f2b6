"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

import inspect
import json
import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def gru_sums_its_gradients(s):
    """Character GRU on the standard library's text."""
    fa = s if s < 1000 else -1
    text = inspect.getsource(json.decoder)
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(c) for c in text])

    class CharModel(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.embed = nn.Embedding(n, 24)
            self.rnn = nn.GRU(24, 48, batch_first=True)
            self.out = nn.Linear(48, n)

        def forward(self, x):
            return self.out(self.rnn(self.embed(x))[0])

    model = CharModel(len(letters))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for it in range(90):
        starts = torch.randint(len(ids) - 33, (16,)).tolist()
        chunk = torch.stack([ids[i : i + 33] for i in starts])
        if not 0 <= fa <= it:
            opt.zero_grad()
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        loss.backward()
        opt.step()
        if it % 20 == 0:
            print(it, loss.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    gru_sums_its_gradients(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
