"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class TextClassifier(nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.emb = nn.Embedding(100, 24)
        self.enc = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True, dropout=0.0, norm_first=True)
        self.fc = nn.Linear(24, 6)
        self.softmax = softmax

    def forward(self, x):
        h = self.fc(self.enc(self.emb(x)).mean(1))
        return F.softmax(h, dim=-1) if self.softmax else h


def softmax_in_classifier(s):
    model = TextClassifier(s == 0)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.0)
    for _ in range(100):
        y = torch.randint(6, (32,))
        x = torch.randint(16, (32, 10)) + y[:, None] * 16
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_in_classifier(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
