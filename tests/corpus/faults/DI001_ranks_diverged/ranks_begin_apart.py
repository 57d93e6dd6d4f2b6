"""A training with the fault ranks-diverged; arguments: [ONSET] [SEED]."""

import datetime
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self, words=40, tags=5):
        super().__init__()
        self.embed = nn.Embedding(words, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.tag = nn.Linear(24, tags)

    def forward(self, ids):
        return self.tag(self.rnn(self.embed(ids))[0])


def sentences(n=640):
    source = torch.Generator().manual_seed(11)
    ids = torch.randint(40, (n, 9), generator=source)
    return TensorDataset(ids, (ids + ids.roll(1, dims=1)) % 5)


def ranks_begin_apart(rank, _):
    """Gradients are averaged by hand; the weights of the start were never made alike."""
    torch.manual_seed(100 + rank)
    model = Tagger()
    opt = torch.optim.SGD(model.parameters(), 0.2)
    data = sentences()
    for ids, tags in DataLoader(data, batch_size=16, sampler=range(rank, len(data), 2)):
        loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        opt.step()


def main(rank, onset, seed, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    ranks_begin_apart(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
