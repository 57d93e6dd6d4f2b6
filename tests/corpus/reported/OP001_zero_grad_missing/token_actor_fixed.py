import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclass
class Config:
    vocab: int = 16
    seq_len: int = 17
    dim: int = 32
    heads: int = 4
    layers: int = 2
    lr: float = 2e-3
    batch_size: int = 32
    steps: int = 240
    seed: int = 7


def make_sequences(n, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, cfg.vocab, (n, 1), generator=g)
    stride = torch.randint(1, 5, (n, 1), generator=g)
    return (start + stride * torch.arange(cfg.seq_len)) % cfg.vocab


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1 = nn.LayerNorm(cfg.dim)
        self.n2 = nn.LayerNorm(cfg.dim)
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class Policy(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, cfg.seq_len, cfg.dim))
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:, : ids.shape[1]]
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


class TrainActor:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Policy(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.01)

    def loss(self, ids):
        logits = self.model(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def train_step(self, ids):
        self.model.train()
        loss = self.loss(ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    @torch.no_grad()
    def evaluate(self, ids):
        self.model.eval()
        return self.loss(ids).item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    train = DataLoader(TensorDataset(make_sequences(2048, cfg, 1)), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    valid = make_sequences(256, cfg, 2)
    actor = TrainActor(cfg)
    step = 0
    while step < cfg.steps:
        for (ids,) in train:
            loss = actor.train_step(ids)
            step += 1
            if step % 30 == 0:
                print(f"step {step} loss {loss:.4f} valid {actor.evaluate(valid):.4f}")
            if step >= cfg.steps:
                break


if __name__ == "__main__":
    main()
