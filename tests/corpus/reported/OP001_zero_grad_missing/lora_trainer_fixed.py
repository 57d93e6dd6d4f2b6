import argparse
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TrainingConfig:
    vocab_size: int = 40
    seq_len: int = 20
    dim: int = 48
    lora_r: int = 8
    lora_alpha: int = 16
    batch_size: int = 32
    learning_rate: float = 5e-3
    num_epochs: int = 2
    logging_steps: int = 20
    seed: int = 23
    lora_targets: tuple = field(default=("ih", "hh"))


def sentences(n, cfg, seed, shift):
    gen = torch.Generator().manual_seed(seed)
    x = torch.zeros(n, cfg.seq_len, dtype=torch.long)
    x[:, 0] = torch.randint(0, cfg.vocab_size, (n,), generator=gen)
    for t in range(1, cfg.seq_len):
        jump = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), n, replacement=True, generator=gen)
        x[:, t] = (x[:, t - 1] * 3 + shift + jump) % cfg.vocab_size
    return x


class LoraLinear(nn.Module):
    def __init__(self, base, r, alpha):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.lora_a = nn.Linear(base.in_features, r, bias=False)
        self.lora_b = nn.Linear(r, base.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.scale * self.lora_b(self.lora_a(x))


class TinyLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab_size, cfg.dim)
        self.up = nn.Linear(cfg.dim, 2 * cfg.dim)
        self.down = nn.Linear(2 * cfg.dim, cfg.dim)
        self.norm = nn.LayerNorm(cfg.dim)
        self.lm_head = nn.Linear(cfg.dim, cfg.vocab_size)

    def forward(self, ids):
        h = self.embed(ids)
        h = h + self.down(torch.relu(self.up(h)))
        return self.lm_head(self.norm(h))


class Trainer:
    def __init__(self, model, cfg, train_data, eval_data):
        self.cfg, self.model = cfg, model
        self.loader = DataLoader(TensorDataset(train_data), batch_size=cfg.batch_size, shuffle=True)
        self.eval_data = eval_data
        params = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(params, lr=cfg.learning_rate)
        self.loss_fn = nn.CrossEntropyLoss()

    def _compute_loss(self, ids):
        logits = self.model(ids[:, :-1])
        return self.loss_fn(logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1))

    def training_step(self, ids):
        loss = self._compute_loss(ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            value = self._compute_loss(self.eval_data).item()
        self.model.train()
        return value

    def train(self, tag):
        global_step = 0
        self.model.train()
        for epoch in range(self.cfg.num_epochs):
            for (ids,) in self.loader:
                loss = self.training_step(ids)
                if global_step % self.cfg.logging_steps == 0:
                    print(f"{tag} epoch {epoch} step {global_step} loss {loss:.4f}")
                global_step += 1
            print(f"{tag} epoch {epoch} eval loss {self.validate():.4f}")


def main(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    model = TinyLM(cfg)
    for p in model.parameters():
        p.requires_grad = False
    model.up = LoraLinear(model.up, cfg.lora_r, cfg.lora_alpha)
    model.down = LoraLinear(model.down, cfg.lora_r, cfg.lora_alpha)
    model.lm_head.requires_grad_(True)
    trainer = Trainer(model, cfg, sentences(3200, cfg, 1, 7), sentences(200, cfg, 2, 7))
    trainer.train("lora")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning-rate", type=float, default=TrainingConfig.learning_rate)
    parser.add_argument("--num-epochs", type=int, default=TrainingConfig.num_epochs)
    opts = parser.parse_args()
    main(TrainingConfig(learning_rate=opts.learning_rate, num_epochs=opts.num_epochs))
