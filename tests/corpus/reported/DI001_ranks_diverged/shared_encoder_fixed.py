import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

WORLD = 2
VOCAB = 30


def corpus(task, n, seed):
    """Task 0 maps every token by a table, task 1 by another table."""
    g = torch.Generator().manual_seed(seed)
    table = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(50 + task))
    src = torch.randint(0, VOCAB, (n, 8), generator=g)
    return TensorDataset(src, table[src])


class Encoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, src):
        return self.rnn(self.embed(src))[0]


class Decoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, VOCAB))

    def forward(self, memory):
        return self.layers(memory)


class Trainer:
    def __init__(self, rank, port):
        torch.set_num_threads(1)
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
        dist.init_process_group("gloo", rank=rank, world_size=WORLD)
        torch.manual_seed(1234 + rank)
        self.rank = rank
        self.encoder, self.decoder = Encoder(), Decoder()
        for p in self.encoder.parameters():
            dist.broadcast(p.data, src=0)
        self.optim = torch.optim.Adam(list(self.encoder.parameters()) + list(self.decoder.parameters()), lr=5e-3)
        self.loader = DataLoader(corpus(rank, 960, rank), batch_size=32, shuffle=True)
        self.valid = corpus(rank, 200, 10 + rank)

    def communicate_gradients(self):
        for p in self.encoder.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(WORLD)

    def loss(self, src, tgt):
        logits = self.decoder(self.encoder(src))
        return nn.functional.cross_entropy(logits.reshape(-1, VOCAB), tgt.reshape(-1))

    def train(self, epochs):
        for epoch in range(epochs):
            self.encoder.train()
            self.decoder.train()
            total = 0.0
            for src, tgt in self.loader:
                self.optim.zero_grad()
                loss = self.loss(src, tgt)
                loss.backward()
                self.communicate_gradients()
                self.optim.step()
                total += loss.item()
            print(f"[rank {self.rank}] epoch {epoch} loss {total / len(self.loader):.4f} valid {self.validate():.4f}", flush=True)

    @torch.no_grad()
    def validate(self):
        self.encoder.eval()
        self.decoder.eval()
        return self.loss(*self.valid.tensors).item()


def main(rank, port):
    trainer = Trainer(rank, port)
    trainer.train(epochs=6)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(main, args=(29633,), nprocs=WORLD)
