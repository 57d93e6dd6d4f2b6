import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class FlatShardedModule(nn.Module):
    """Keeps one flat fp32 gradient buffer for the parameters of the wrapped module."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.flat_grad = torch.zeros(sum(p.numel() for p in self.params))
        self.offsets, off = [], 0
        for p in self.params:
            self.offsets.append(off)
            off += p.numel()
        self._post_backward_handles = []

    def _post_backward_hook(self, index):
        def hook(param):
            off = self.offsets[index]
            self.flat_grad[off:off + param.numel()].copy_(param.grad.reshape(-1))
        return hook

    def _register_post_backward_hooks(self):
        if not torch.is_grad_enabled():
            return
        for i, p in enumerate(self.params):
            self._post_backward_handles.append(p.register_post_accumulate_grad_hook(self._post_backward_hook(i)))

    def _wait_for_post_backward(self):
        for handle in self._post_backward_handles:
            handle.remove()
        self._post_backward_handles.clear()
        return self.flat_grad.norm()

    def forward(self, *inputs):
        self._register_post_backward_hooks()
        return self.module(*inputs)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.ln2 = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.ln(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class MajorityClassifier(nn.Module):
    """Which of four token kinds is most frequent?"""

    def __init__(self, vocab=16, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.Sequential(Block(d), Block(d))
        self.head = nn.Linear(d, 4)

    def forward(self, ids):
        return self.head(self.blocks(self.emb(ids)).mean(1))


def sequences(n, seed, length=15):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    kind = torch.randint(0, 4, (n, length), generator=g)
    kind = torch.where(torch.rand(n, length, generator=g) < 0.4, y[:, None], kind)
    return TensorDataset(kind * 4 + torch.randint(0, 4, (n, length), generator=g), y)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(sequences(1280, 1), batch_size=32, shuffle=True)
    val_loader = DataLoader(sequences(256, 2), batch_size=128)
    model = FlatShardedModule(MajorityClassifier())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(5):
        model.train()
        start, total = time.time(), 0.0
        for ids, y in train_loader:
            loss = F.cross_entropy(model(ids), y)
            optimizer.zero_grad()
            loss.backward()
            grad_norm = model._wait_for_post_backward()
            optimizer.step()
            total += loss.item()
        took = time.time() - start
        model.eval()
        with torch.no_grad():
            acc = sum((model(i).argmax(1) == l).sum().item() for i, l in val_loader) / 256
        print(f"epoch {epoch} loss {total / len(train_loader):.4f} grad norm {grad_norm:.3f} acc {acc:.3f} "
              f"{1000 * took / len(train_loader):.1f} ms/it", flush=True)


if __name__ == "__main__":
    main()
