import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclass
class TrainConfig:
    seed: int = 42
    lr: float = 2e-3
    gamma: float = 0.85
    num_epochs: int = 4
    batch_size_training: int = 16
    gradient_accumulation_steps: int = 2
    vocab: int = 20


def build_split(n, cfg, seed):
    g = torch.Generator().manual_seed(seed)
    a = torch.randint(0, cfg.vocab, (n, 2), generator=g)
    seq = [a[:, 0], a[:, 1]]
    for _ in range(10):
        seq.append((seq[-1] + seq[-2]) % cfg.vocab)
    return TensorDataset(torch.stack(seq, 1))


class SmallLM(nn.Module):
    def __init__(self, vocab, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, 4 * dim, 2)
        self.norm = nn.LayerNorm(4 * dim)
        self.mid = nn.Linear(4 * dim, 2 * dim)
        self.lm_head = nn.Linear(2 * dim, vocab)

    def forward(self, ids):
        h = F.pad(self.embed(ids).transpose(1, 2), (1, 0))
        h = F.gelu(self.norm(self.mix(h).transpose(1, 2)))
        return self.lm_head(F.gelu(self.mid(h)))


def lm_loss(model, ids):
    logits = model(ids[:, 1:-1])
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, 3:].flatten())


def evaluation(model, eval_dataloader):
    model.eval()
    with torch.no_grad():
        losses = [lm_loss(model, ids).item() for (ids,) in eval_dataloader]
    return sum(losses) / len(losses)


def train(model, train_dataloader, eval_dataloader, optimizer, lr_scheduler, cfg):
    accum = cfg.gradient_accumulation_steps
    for epoch in range(cfg.num_epochs):
        t0 = time.perf_counter()
        model.train()
        total_loss = 0.0
        for step, (ids,) in enumerate(train_dataloader):
            loss = lm_loss(model, ids)
            total_loss += loss.item()
            (loss / accum).backward()
            if (step + 1) % accum == 0 or step == len(train_dataloader) - 1:
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
        eval_loss = evaluation(model, eval_dataloader)
        print(f"epoch {epoch + 1} train {total_loss / len(train_dataloader):.4f} eval {eval_loss:.4f} "
              f"lr {optimizer.param_groups[0]['lr']:.2e} time {time.perf_counter() - t0:.1f}s")


def main():
    cfg = TrainConfig()
    torch.manual_seed(cfg.seed)
    train_dl = DataLoader(build_split(1920, cfg, 1), batch_size=cfg.batch_size_training, shuffle=True)
    eval_dl = DataLoader(build_split(256, cfg, 2), batch_size=64)
    model = SmallLM(cfg.vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=cfg.gamma)
    train(model, train_dl, eval_dl, optimizer, scheduler, cfg)


if __name__ == "__main__":
    main()
