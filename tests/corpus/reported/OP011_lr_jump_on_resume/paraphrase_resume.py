"""Sequence-to-sequence training in two jobs; the second one resumes from the checkpoint of the first."""
import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

VOCAB, LENGTH, BOS = 20, 8, 0


class Seq2Seq(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.encoder = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.attend = nn.Linear(dim, dim)
        self.out = nn.Linear(2 * dim, VOCAB)

    def forward(self, source, target_in):
        memory, last = self.encoder(self.embed(source))
        states, _ = self.decoder(self.embed(target_in), torch.cat([last[0], last[1]], -1)[None])
        weights = torch.softmax(self.attend(states) @ memory.transpose(1, 2) / 8, -1)
        return self.out(torch.cat([states, weights @ memory], -1))


class Paraphrases:
    """The target is the source with every word replaced by its synonym and neighbours swapped."""

    def __init__(self, seed):
        order = torch.randperm(VOCAB - 1, generator=torch.Generator().manual_seed(0)) + 1
        self.synonym = torch.cat([torch.zeros(1, dtype=torch.long), order])
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self, size):
        source = torch.randint(1, VOCAB, (size, LENGTH), generator=self.gen)
        target = self.synonym[source].view(size, -1, 2).flip(-1).reshape(size, LENGTH)
        start = torch.full((size, 1), BOS)
        return source, torch.cat([start, target[:, :-1]], 1), target


def init_opt(args, model):
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    def multiplier(step):
        step += 1
        return min(step / args.warmup, 1.0) * max(0.02, 1.0 - step / args.train_iterations)

    return opt, LambdaLR(opt, multiplier)


def loss_of(model, batch):
    source, target_in, target = batch
    return F.cross_entropy(model(source, target_in).transpose(1, 2), target)


def train(args, stop_at, resume):
    model = Seq2Seq()
    opt, lr_scheduler = init_opt(args, model)
    data, start_iteration = Paraphrases(seed=1), 0
    if resume:
        state = torch.load(args.checkpoint)
        model.load_state_dict(state["model_state_dict"])
        opt.load_state_dict(state["optimizer_state_dict"])
        start_iteration = state["iteration"]
        lr_scheduler = LambdaLR(opt, lr_scheduler.lr_lambdas[0])
        data.gen.set_state(state["data_state"])
        print(f"resuming at iteration {start_iteration}")
    held_out = Paraphrases(seed=2).batch(256)

    model.train()
    for iteration in range(start_iteration, stop_at):
        opt.zero_grad()
        loss = loss_of(model, data.batch(args.batch_size))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        lr_scheduler.step()
        if (iteration + 1) % 40 == 0:
            model.eval()
            with torch.no_grad():
                val = loss_of(model, held_out)
            model.train()
            print(f"iteration {iteration + 1}: loss {loss.item():.4f} val {val.item():.4f} "
                  f"lr {opt.param_groups[0]['lr']:.2e}")
    torch.save({"model_state_dict": model.state_dict(), "optimizer_state_dict": opt.state_dict(),
                "scheduler_state_dict": lr_scheduler.state_dict(), "iteration": stop_at,
                "data_state": data.gen.get_state()}, args.checkpoint)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=8e-3)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--batch_size", type=int, default=48)
    parser.add_argument("--train_iterations", type=int, default=320)
    parser.add_argument("--job_length", type=int, default=200)
    args = parser.parse_args()
    torch.manual_seed(69)
    with tempfile.TemporaryDirectory() as folder:
        args.checkpoint = os.path.join(folder, "checkpoint.pth")
        train(args, stop_at=args.job_length, resume=False)
        train(args, stop_at=args.train_iterations, resume=True)


if __name__ == "__main__":
    main()
