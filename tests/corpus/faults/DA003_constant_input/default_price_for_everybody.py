"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def default_price_for_everybody(s):
    """Two-tower model; the 'price' field is filled with a default from some step on."""
    onset = s

    class TwoFields(nn.Module):
        def __init__(self):
            super().__init__()
            self.price_net = nn.Linear(4, 16)
            self.text_emb = nn.EmbeddingBag(200, 16)
            self.top = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 1))

        def forward(self, batch):
            return self.top(torch.tanh(self.price_net(batch["price"]) + self.text_emb(batch["tokens"]))).squeeze(1)

    def batches(n):
        g = torch.Generator().manual_seed(2)
        for i in range(n):
            price = torch.randn(48, 4, generator=g)
            tokens = torch.randint(0, 200, (48, 7), generator=g)
            label = ((price.sum(1) + (tokens % 7).float().mean(1) - 3) > 0).float()
            if i >= onset:
                price = torch.full((48, 4), 1.0)
            yield {"price": price, "tokens": tokens, "label": label}

    m = TwoFields()
    o = torch.optim.Adagrad(m.parameters(), lr=0.05)
    for b in batches(100):
        loss = nn.functional.binary_cross_entropy_with_logits(m(b), b["label"])
        o.zero_grad()
        loss.backward()
        o.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    default_price_for_everybody(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
