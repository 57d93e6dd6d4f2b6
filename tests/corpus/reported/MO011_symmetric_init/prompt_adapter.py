"""Adapt a trained sequence model to a second task with low rank adapters."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class LoRALayer(nn.Module):
    def __init__(self, in_features, out_features, r=8, lora_alpha=16):
        super().__init__()
        self.lora_A = nn.Parameter(torch.zeros((in_features, r)), requires_grad=True)
        self.lora_B = nn.Parameter(torch.zeros((r, out_features)), requires_grad=True)
        self.scaling = lora_alpha / r

    def forward(self, x):
        return (x @ self.lora_A @ self.lora_B) * self.scaling


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.lora_q = self.lora_v = None
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.lora_q is not None:
            q, v = q + self.lora_q(x), v + self.lora_v(x)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        return self.o(y)


class Encoder(nn.Module):
    def __init__(self, vocab=60, dim=48, heads=4, layers=2, classes=4, length=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.1)
        self.att = nn.ModuleList([Attention(dim, heads) for _ in range(layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(layers)])
        self.n1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.n2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        for att, ff, n1, n2 in zip(self.att, self.ff, self.n1, self.n2):
            x = x + att(n1(x))
            x = x + ff(n2(x))
        return self.head(x.mean(1))

    def add_adapters(self, r):
        for p in self.parameters():
            p.requires_grad_(False)
        for att in self.att:
            att.lora_q = LoRALayer(att.q.in_features, att.q.out_features, r)
            att.lora_v = LoRALayer(att.v.in_features, att.v.out_features, r)


def make_task(n, seed, groups):
    """The label is the word group that fills most of the sentence."""
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=gen)
    own = torch.randint(0, 10, (n, 16), generator=gen) + 10 * torch.tensor(groups)[y].unsqueeze(1)
    rest = torch.randint(0, 60, (n, 16), generator=gen)
    keep = torch.rand(n, 16, generator=gen) < 0.5
    return TensorDataset(torch.where(keep, own, rest), y)


def run_task(name, model, train, valid, lr, epochs):
    params = [p for p in model.parameters() if p.requires_grad]
    print(f"[{name}] trainable parameters: {sum(p.numel() for p in params)}")
    optimizer = torch.optim.AdamW(params, lr=lr)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    step = 0
    for epoch in range(epochs):
        model.train()
        for ids, y in loader:
            loss = F.cross_entropy(model(ids), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 25 == 0:
                print(f"[{name}] step {step} loss {loss.item():.4f}")
            step += 1
    model.eval()
    with torch.no_grad():
        ids, y = valid.tensors
        out = model(ids)
        print(f"[{name}] valid loss {F.cross_entropy(out, y).item():.4f} acc {(out.argmax(1) == y).float().mean().item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(8)
    model = Encoder()
    first, second = (0, 1, 2, 3), (1, 0, 3, 5)
    run_task("task1", model, make_task(2560, 1, first), make_task(400, 2, first), lr=2e-3, epochs=1)
    model.add_adapters(r=8)
    run_task("task2", model, make_task(2560, 3, second), make_task(400, 4, second), lr=5e-3, epochs=2)
