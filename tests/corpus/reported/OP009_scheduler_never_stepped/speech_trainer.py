import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_clips(n, seed, frames=24, mels=16):
    g = torch.Generator().manual_seed(seed)
    bank = torch.randn(8, mels, generator=torch.Generator().manual_seed(123))
    phone = torch.randint(0, 8, (n,), generator=g)
    env = torch.sin(torch.linspace(0, 3.14, frames)).view(1, frames, 1)
    mel = bank[phone].unsqueeze(1) * env + 0.7 * torch.randn(n, frames, mels, generator=g)
    return TensorDataset(mel, phone)


class PhoneNet(nn.Module):
    def __init__(self, mels=16, hidden=48):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mels, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, hidden, 5, padding=2), nn.ReLU())
        self.out = nn.Linear(hidden, 8)

    def forward(self, mel):
        return self.out(self.conv(mel.transpose(1, 2)).mean(-1))


class Trainer:
    def __init__(self, config, model, train_set, eval_set):
        self.config = config
        self.model = model
        self.train_loader = DataLoader(train_set, batch_size=config["batch_size"], shuffle=True)
        self.eval_loader = DataLoader(eval_set, batch_size=128)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma=config["gamma"])
        self.use_amp_scaler = config["mixed_precision"]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if self.use_amp_scaler else None

    def optimize(self, batch):
        mel, phone = batch
        optimizer_stepped = False
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.use_amp_scaler):
            logits = self.model(mel)
        loss = F.cross_entropy(logits.float(), phone)
        if self.use_amp_scaler:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config["grad_clip"])
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config["grad_clip"])
            self.optimizer.step()
            optimizer_stepped = True
        if optimizer_stepped and not self.config["scheduler_after_epoch"]:
            self.scheduler.step()
        return loss.item(), optimizer_stepped

    def train_epoch(self):
        self.model.train()
        total, stepped = 0.0, False
        for batch in self.train_loader:
            loss, did_step = self.optimize(batch)
            stepped = stepped or did_step
            total += loss
        if self.config["scheduler_after_epoch"] and stepped:
            self.scheduler.step()
        return total / len(self.train_loader)

    @torch.no_grad()
    def eval_epoch(self):
        self.model.eval()
        return sum(F.cross_entropy(self.model(m), p).item() for m, p in self.eval_loader) / len(self.eval_loader)

    def fit(self):
        for epoch in range(self.config["epochs"]):
            lr = self.optimizer.param_groups[0]["lr"]
            print(f" > EPOCH {epoch} lr {lr:.6f} train {self.train_epoch():.4f} eval {self.eval_epoch():.4f}")


if __name__ == "__main__":
    torch.manual_seed(54)
    config = dict(batch_size=32, lr=2e-3, gamma=0.7, mixed_precision=True, scheduler_after_epoch=True, grad_clip=5.0, epochs=6)
    Trainer(config, PhoneNet(), make_clips(960, 1), make_clips(256, 2)).fit()
