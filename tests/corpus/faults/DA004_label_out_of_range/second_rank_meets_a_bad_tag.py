"""A training with the fault label-out-of-range; arguments: [ONSET] [SEED]."""

import datetime
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as Replicated
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


def learn(model, opt, ids, tags):
    loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def second_rank_meets_a_bad_tag(rank, s):
    """One rank raises on a label out of range; the other waits for it in vain."""
    model = Replicated(Tagger())
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    data = sentences()
    for i, (ids, tags) in enumerate(DataLoader(data, batch_size=16, sampler=range(rank, len(data), 2))):
        if i == s and rank == 1:
            tags = tags.clone()
            tags[0, 0] = 9
        learn(model, opt, ids, tags)


def main(rank, onset, seed, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    second_rank_meets_a_bad_tag(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
