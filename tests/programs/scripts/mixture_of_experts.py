"""A transformer block with a mixture of experts: top-2 routing, noise in training, a loss that balances the load."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(13)
vocab, d, experts, top_k, length, batch = 32, 32, 4, 2, 16, 32


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        return self.net(x)


class SparseMoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.noise = nn.Linear(d, experts, bias=False), nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList([Expert() for _ in range(experts)])
        self.balance = torch.tensor(0.0)

    def forward(self, x):
        flat = x.reshape(-1, d)
        logits = self.gate(flat)
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(flat))
        weights, indices = logits.topk(top_k, dim=-1)
        weights = F.softmax(weights, dim=-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, slot = torch.where(indices == number)
            if len(token):
                out = out.index_add(0, token, expert(flat[token]) * weights[token, slot, None])
        share = F.one_hot(indices, experts).float().sum(1).mean(0) / top_k
        self.balance = experts * (share * F.softmax(logits, dim=-1).mean(0)).sum()
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, 4, batch_first=True)
        self.moe, self.ln1, self.ln2 = SparseMoE(), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        h = self.ln1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.moe(self.ln2(x))


class SparseMoELanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, idx):
        x = self.token(idx) + self.position(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)), sum(block.moe.balance for block in self.blocks)


step_of = torch.randint(1, 5, (vocab,))


def get_batch():
    """Sequences in which each token decides how far the next one is."""
    tokens = [torch.randint(0, vocab, (batch,))]
    for _ in range(length):
        tokens.append((tokens[-1] + step_of[tokens[-1]] + (torch.rand(batch) < 0.3)) % vocab)
    sequence = torch.stack(tokens, 1)
    return sequence[:, :-1], sequence[:, 1:]


model = SparseMoELanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for iteration in range(60):
    xb, yb = get_batch()
    logits, balance = model(xb)
    loss = F.cross_entropy(logits.flatten(0, 1), yb.flatten())
    optimizer.zero_grad(set_to_none=True)
    (loss + 0.01 * balance).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if iteration % 5 == 0:
        print(iteration, loss.item(), balance.item())
model.eval()
with torch.no_grad():
    logits, _ = model(get_batch()[0])
    print(logits.mean().item())
