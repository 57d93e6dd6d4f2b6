"""Trainings of two ranks with a fault, of an opponent's tenth round.

python opponent_eleven_rank_faults.py NAME ONSET [SEED]
"""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from ranks_faults import Net, batches
from torch.nn.parallel import DistributedDataParallel


def one_rank_leaves_a_step_out(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        opt.zero_grad()
        F.cross_entropy(ddp(x), y).backward()
        if i == s and rank == 1:
            continue
        opt.step()


def main(rank, name, onset, seed, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(seed)
    globals()[name](rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    name, onset, seed = (*sys.argv[1:], "0")[:3]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (name, int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
