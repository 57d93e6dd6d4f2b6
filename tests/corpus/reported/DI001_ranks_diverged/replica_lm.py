import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

VOCAB, CONTEXT = 32, 8


class TinyLM(nn.Module):
    def __init__(self, dim=32, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.w_in = nn.Linear(CONTEXT * dim, hidden)
        self.w_out = nn.Linear(hidden, VOCAB)

    def init_weights(self, seed):
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.emb.weight, std=0.5, generator=generator)
        for lin in (self.w_in, self.w_out):
            nn.init.normal_(lin.weight, std=lin.in_features ** -0.5, generator=generator)
            nn.init.zeros_(lin.bias)

    def forward(self, idx):
        return self.w_out(F.gelu(self.w_in(self.emb(idx).flatten(1))))


def corpus(n, seed):
    table = torch.randn(VOCAB, VOCAB, VOCAB, generator=torch.Generator().manual_seed(7)).mul(3.0).softmax(-1)[:4]
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, VOCAB, (n, CONTEXT), generator=g)
    y = torch.multinomial(table[x[:, -2] % 4, x[:, -1]], 1, generator=g).squeeze(1)
    return TensorDataset(x, y)


def average_gradients(model, world_size):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += F.cross_entropy(model(x), y, reduction="sum").item()
        n += len(y)
    return total / n


def train(rank, world_size, store, seed=6198):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    train_set, val_set = corpus(8000, 0), corpus(1500, 1)
    sampler = DistributedSampler(train_set, world_size, rank, shuffle=True, seed=seed, drop_last=True)
    loader = DataLoader(train_set, batch_size=100, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=500)

    model = TinyLM()
    model.init_weights(seed + rank)
    optim = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        model.train()
        running = torch.zeros(1)
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            average_gradients(model, world_size)
            optim.step()
            running += loss.detach()
        dist.all_reduce(running)
        if rank == 0:
            print(f"epoch {epoch} train {running.item() / len(loader) / world_size:.4f} "
                  f"val {evaluate(model, val_loader):.4f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(2, os.path.join(folder, "rendezvous")), nprocs=2)
