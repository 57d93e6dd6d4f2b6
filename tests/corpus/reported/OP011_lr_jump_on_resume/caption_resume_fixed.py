"""Caption decoder training that can be interrupted and resumed."""
import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VOCAB, WORDS, REGION = 30, 7, 24


def caption_data(n, seed):
    gen = torch.Generator().manual_seed(seed)
    proj = torch.randn(6, REGION, generator=torch.Generator().manual_seed(1))
    attr = torch.randint(0, 5, (n, 6), generator=gen)
    feats = (attr.float() - 2.0) / 1.4 @ proj / math.sqrt(6) + 0.1 * torch.randn(n, REGION, generator=gen)
    caps = torch.zeros(n, WORDS, dtype=torch.long)
    caps[:, 1:] = attr + torch.arange(6) % 5 * 5 + 1
    noise = torch.rand(n, WORDS, generator=gen) < 0.05
    noise[:, 0] = False
    caps[noise] = torch.randint(1, VOCAB, (int(noise.sum()),), generator=gen)
    return TensorDataset(feats, caps)


class Captioner(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.visual = nn.Linear(REGION, dim)
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(2 * dim, dim, batch_first=True)
        self.predict = nn.Linear(2 * dim, VOCAB)

    def forward(self, feats, tokens):
        v = torch.relu(self.visual(feats)).unsqueeze(1).expand(-1, tokens.size(1), -1)
        h, _ = self.rnn(torch.cat([self.embed(tokens), v], dim=-1))
        return self.predict(torch.cat([h, v], dim=-1))


class DefaultTrainer:
    def __init__(self, output_dir, max_epoch, base_lr=4e-3, warmup=20):
        self.output_dir = output_dir
        self.model = Captioner()
        self.loader = DataLoader(caption_data(1920, 2), batch_size=32, shuffle=True)
        self.val_data = caption_data(300, 3)
        total = len(self.loader) * max_epoch
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=base_lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda it: min(1.0, (it + 1) / warmup) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, it / total)))))
        self.start_epoch = 0

    def checkpointables(self):
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def save(self, epoch):
        state = {name: obj.state_dict() for name, obj in self.checkpointables().items()}
        torch.save({"epoch": epoch, **state}, os.path.join(self.output_dir, "model_last.pth"))

    def resume_or_load(self):
        state = torch.load(os.path.join(self.output_dir, "model_last.pth"))
        for name, obj in self.checkpointables().items():
            obj.load_state_dict(state[name])
        self.start_epoch = state["epoch"] + 1
        print(f"resumed after epoch {state['epoch']}")

    def run_step(self, feats, caps):
        logits = self.model(feats, caps[:, :-1])
        return F.cross_entropy(logits.reshape(-1, VOCAB), caps[:, 1:].reshape(-1))

    def train(self, until):
        for epoch in range(self.start_epoch, until):
            self.model.train()
            running = 0.0
            for feats, caps in self.loader:
                loss = self.run_step(feats, caps)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                running += loss.item()
            self.save(epoch)
            self.model.eval()
            with torch.no_grad():
                val = self.run_step(*self.val_data.tensors).item()
            print(f"epoch {epoch} loss {running / len(self.loader):.4f} val {val:.4f} lr {self.optimizer.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    torch.manual_seed(55)
    with tempfile.TemporaryDirectory() as folder:
        trainer = DefaultTrainer(folder, max_epoch=5)
        trainer.train(until=3)
        del trainer
        trainer = DefaultTrainer(folder, max_epoch=5)
        trainer.resume_or_load()
        trainer.train(until=5)
