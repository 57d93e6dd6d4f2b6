import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 2
VOCAB = 20


class DynamicBucketingSampler:
    """Groups utterances of like duration and deals the batches out to the ranks."""

    def __init__(self, lengths, max_duration, rank, world_size, shuffle=True, drop_last=False, seed=0):
        self.lengths, self.max_duration = lengths, max_duration
        self.rank, self.world_size = rank, world_size
        self.shuffle, self.drop_last, self.seed, self.epoch = shuffle, drop_last, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.argsort(torch.tensor(self.lengths) + torch.rand(len(self.lengths), generator=g)).tolist()
        batches, cur = [], []
        for i in order:
            if (len(cur) + 1) * self.lengths[i] > self.max_duration:
                batches.append(cur)
                cur = []
            cur.append(i)
        if cur:
            batches.append(cur)
        if self.shuffle:
            batches = [batches[k] for k in torch.randperm(len(batches), generator=g).tolist()]
        if self.drop_last:
            batches = batches[:len(batches) // self.world_size * self.world_size]
        yield from batches[self.rank::self.world_size]


class CodecCorpus:
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        table = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(1))
        self.items = []
        for _ in range(n):
            length = int(torch.randint(8, 24, (1,), generator=g))
            seq = [int(torch.randint(0, VOCAB, (1,), generator=g))]
            for _ in range(length - 1):
                jump = torch.rand(1, generator=g).item() < 0.1
                seq.append(int(torch.randint(0, VOCAB, (1,), generator=g)) if jump else int(table[seq[-1]]))
            self.items.append(torch.tensor(seq))
        self.lengths = [len(s) for s in self.items]

    def collate(self, index):
        return nn.utils.rnn.pad_sequence([self.items[i] for i in index], batch_first=True, padding_value=-1)


class ARDecoder(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.predict_layer = nn.Linear(d, VOCAB)

    def forward(self, codes):
        h, _ = self.rnn(self.emb(codes[:, :-1].clamp(min=0)))
        logits = self.predict_layer(h)
        return F.cross_entropy(logits.reshape(-1, VOCAB), codes[:, 1:].reshape(-1), ignore_index=-1)


def compute_validation_loss(model, valid):
    model.eval()
    with torch.no_grad():
        loss = model.module(valid.collate(range(len(valid.items))))
    model.train()
    dist.all_reduce(loss)
    return loss.item() / WORLD


def run(rank, port, num_epochs=2):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(seconds=20))
    torch.manual_seed(42)
    corpus, valid = CodecCorpus(700, 1), CodecCorpus(60, 2 + rank)
    sampler = DynamicBucketingSampler(
        corpus.lengths, max_duration=88, rank=rank, world_size=WORLD, shuffle=True)
    model = DDP(ARDecoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(num_epochs):
        sampler.set_epoch(epoch)
        total, count = 0.0, 0
        for batch_idx, index in enumerate(sampler):
            loss = model(corpus.collate(index))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item(), count + 1
            if rank == 0 and batch_idx % 20 == 0:
                print(f"epoch {epoch} batch {batch_idx} loss {loss.item():.4f}", flush=True)
        dist.barrier()
        val = compute_validation_loss(model, valid)
        if rank == 0:
            print(f"epoch {epoch} batches {count} mean loss {total / count:.4f} validation {val:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(run, args=(port,), nprocs=WORLD)
