import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

conf = {
    "trainer": {"epochs": 8, "batch_size": 32, "learning_rate": 0.05, "grad_max_norm": 1.0, "amp": True},
    "data": {"levels": 24, "train": 640, "valid": 128},
}


def reanalysis(n, seed, levels):
    """Standardised column states and the state one time step later."""
    g = torch.Generator().manual_seed(seed)
    k = torch.Generator().manual_seed(77)
    adv = torch.randn(levels, levels, generator=k) / levels ** 0.5
    src = torch.randn(levels, levels, generator=k) / levels ** 0.5
    x = torch.randn(n, levels, generator=g)
    y = torch.tanh(x @ adv) + 0.5 * (x @ src) + 0.05 * torch.randn(n, levels, generator=g)
    return TensorDataset(x, y / y.std())


class Column(nn.Module):
    def __init__(self, levels, width=96):
        super().__init__()
        self.up = nn.Linear(levels, width)
        self.mid = nn.Linear(width, width)
        self.down = nn.Linear(width, levels)
        self.act = nn.GELU()

    def forward(self, x):
        h = self.act(self.up(x))
        h = h + self.act(self.mid(h))
        return self.down(h)


class Trainer:
    def __init__(self, model, conf):
        self.model = model
        self.conf = conf["trainer"]
        self.optimizer = torch.optim.SGD(model.parameters(), lr=self.conf["learning_rate"], momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.conf["amp"])
        self.criterion = nn.MSELoss()

    def train_one_epoch(self, loader):
        self.model.train()
        results = []
        for x, y in loader:
            with torch.autocast("cpu", dtype=torch.float16, enabled=self.conf["amp"]):
                y_pred = self.model(x)
            loss = self.criterion(y_pred.float(), y)
            self.scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=self.conf["grad_max_norm"])
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            results.append(loss.item())
        return sum(results) / len(results)

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        total = 0.0
        for x, y in loader:
            total += self.criterion(self.model(x), y).item()
        return total / len(loader)

    def fit(self, train_loader, valid_loader):
        for epoch in range(self.conf["epochs"]):
            loss = self.train_one_epoch(train_loader)
            print(f"Epoch: {epoch} train_loss: {loss:.6f} valid_loss: {self.validate(valid_loader):.6f} "
                  f"lr: {self.optimizer.param_groups[0]['lr']}")


if __name__ == "__main__":
    torch.manual_seed(1000)
    levels = conf["data"]["levels"]
    train = DataLoader(reanalysis(conf["data"]["train"], 1, levels), conf["trainer"]["batch_size"], shuffle=True)
    valid = DataLoader(reanalysis(conf["data"]["valid"], 2, levels), 64)
    Trainer(Column(levels), conf).fit(train, valid)
