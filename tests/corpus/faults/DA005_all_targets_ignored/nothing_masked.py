"""A training with the fault all-targets-ignored; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class MaskedLM(nn.Module):
    def __init__(self, vocab=60, d=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(1, 24, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.lm_head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.lm_head(self.encoder(self.tok(ids) + self.pos))


def nothing_masked(s):
    """Masked language model; in one batch not a single token was masked."""
    model = MaskedLM()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
    for step in range(60):
        ids = (torch.arange(24) + torch.randint(40, (8, 1))) % 59 + 1
        masked = torch.rand(8, 24) < 0.15
        if step == s:
            masked[:] = False
        labels = ids.masked_fill(~masked, -100)
        logits = model(ids.masked_fill(masked, 0))
        loss = loss_fn(logits.view(-1, 60), labels.view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    nothing_masked(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
