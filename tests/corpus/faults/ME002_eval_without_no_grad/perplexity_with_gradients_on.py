"""A training with the fault eval-without-no-grad; arguments: [ONSET] [SEED]."""

import contextlib
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def perplexity_with_gradients_on(s):
    """Decoder-only model; validation inside the step loop every 20 steps, in eval mode, without no_grad."""
    fa = s if s < 1000 else -1
    guard = contextlib.nullcontext if fa >= 0 else torch.no_grad

    class Decoder(nn.Module):
        def __init__(self, v=16, d=32):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(v, d), nn.Embedding(10, d)
            self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, d))
            self.out = nn.Linear(d, v)

        def forward(self, x):
            h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
            m = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
            q = self.ln1(h)
            h = h + self.attn(q, q, q, attn_mask=m, need_weights=False)[0]
            return self.out(h + self.ff(self.ln2(h)))

    def batch():
        s = torch.randint(16, (24, 2))
        seq = [s[:, 0], s[:, 1]]
        for _ in range(8):
            seq.append((seq[-1] + seq[-2]) % 16)
        return torch.stack(seq, 1)

    net = Decoder()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for i in range(80):
        b = batch()
        loss = nn.functional.cross_entropy(net(b[:, :-1]).transpose(1, 2), b[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 19:
            net.eval()
            with guard():
                v = batch()
                print(i, nn.functional.cross_entropy(net(v[:, :-1]).transpose(1, 2), v[:, 1:]).exp().item())
            net.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    perplexity_with_gradients_on(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
