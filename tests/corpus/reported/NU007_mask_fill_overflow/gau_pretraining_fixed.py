"""Masked token pretraining with a gated attention unit, half precision."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
INF = 1e4
PAD, MASK, VOCAB, LENGTH = 0, 1, 40, 20


def corpus(n, seed):
    gen = torch.Generator().manual_seed(seed)
    ids = torch.zeros(n, LENGTH, dtype=torch.long)
    ids[:, 0] = torch.randint(2, VOCAB, (n,), generator=gen)
    for t in range(1, LENGTH):
        hop = torch.multinomial(torch.tensor([0.85, 0.15]), n, replacement=True, generator=gen)
        ids[:, t] = (ids[:, t - 1] - 2 + 5 + hop) % (VOCAB - 2) + 2
    lengths = torch.randint(12, LENGTH + 1, (n,), generator=gen)
    valid = torch.arange(LENGTH)[None] < lengths[:, None]
    ids = ids.masked_fill(~valid, PAD)
    chosen = (torch.rand(n, LENGTH, generator=gen) < 0.2) & valid
    chosen[:, 3] = True
    return TensorDataset(ids.masked_fill(chosen, MASK), valid.long(), ids.masked_fill(~chosen, -100))


class GatedAttentionUnit(nn.Module):
    def __init__(self, dim, expansion=2, key_size=32):
        super().__init__()
        self.inner, self.key_size = dim * expansion, key_size
        self.i_dense = nn.Linear(dim, 2 * self.inner + key_size)
        self.o_dense = nn.Linear(self.inner, dim)
        self.gamma = nn.Parameter(torch.randn(2, key_size) * 0.2 + 1.0)
        self.beta = nn.Parameter(torch.zeros(2, key_size))
        self.bias = nn.Parameter(torch.zeros(2 * LENGTH - 1))
        pos = torch.arange(LENGTH)
        self.register_buffer("rel", pos[None] - pos[:, None] + LENGTH - 1)

    def forward(self, x, attention_mask):
        u, v, z = F.silu(self.i_dense(x)).split([self.inner, self.inner, self.key_size], dim=-1)
        q, k = (z.unsqueeze(-2) * self.gamma + self.beta).unbind(dim=-2)
        a = torch.matmul(q, k.transpose(-1, -2)) / self.key_size ** 0.5
        a = a + self.bias[self.rel].to(a.dtype)
        a = a.masked_fill(attention_mask[:, None, :] == 0, -INF)
        a = torch.softmax(a, dim=-1)
        return self.o_dense(u * torch.matmul(a.to(v.dtype), v))


class GAUForMaskedLM(nn.Module):
    def __init__(self, dim=48, layers=2):
        super().__init__()
        self.embeddings = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.layers = nn.ModuleList([GatedAttentionUnit(dim) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.cls = nn.Linear(dim, VOCAB)

    def forward(self, input_ids, attention_mask):
        x = self.embeddings(input_ids)
        for layer, norm in zip(self.layers, self.norms):
            x = norm(x + layer(x, attention_mask))
        return self.cls(x)


def step_loss(model, batch):
    ids, mask, labels = batch
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(ids, mask)
    return F.cross_entropy(logits.float().view(-1, VOCAB), labels.view(-1))


def main():
    torch.manual_seed(66)
    train_loader = DataLoader(corpus(1920, 1), batch_size=32, shuffle=True)
    dev_loader = DataLoader(corpus(200, 2), batch_size=100)
    model = GAUForMaskedLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    step = 0
    for epoch in range(3):
        model.train()
        for batch in train_loader:
            loss = step_loss(model, batch)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if step % 20 == 0:
                print(f"step {step} mlm loss {loss.item():.4f}")
            step += 1
        model.eval()
        with torch.no_grad():
            dev = sum(step_loss(model, b).item() for b in dev_loader) / len(dev_loader)
        print(f"epoch {epoch} dev loss {dev:.4f}")


if __name__ == "__main__":
    main()
