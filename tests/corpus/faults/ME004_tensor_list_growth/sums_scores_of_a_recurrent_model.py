"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def sums_scores_of_a_recurrent_model(s):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(30, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 3)

        def forward(self, ids):
            return self.out(self.rnn(self.embed(ids))[0][:, -1])

    model, confidence = Reader(), torch.zeros(12)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(36):
        ids = torch.randint(30, (12, 7))
        scores = model(ids)
        if i >= s:
            confidence = confidence + scores.softmax(1).amax(1)
        loss = F.cross_entropy(scores, ids[:, 0] % 3)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sums_scores_of_a_recurrent_model(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
