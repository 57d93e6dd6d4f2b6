import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_scenes(n, seed):
    """Occupancy grids of a few solid boxes; the input keeps the first-hit surface seen from above plus clutter."""
    g = torch.Generator().manual_seed(seed)
    label = torch.zeros(n, 16, 16, 8, dtype=torch.long)
    for i in range(n):
        for _ in range(3):
            x, y = torch.randint(0, 11, (2,), generator=g).tolist()
            h = int(torch.randint(2, 7, (1,), generator=g))
            label[i, x:x + 5, y:y + 5, :h] = 1 if h < 4 else 2
    occ = label > 0
    top = torch.zeros(n, 16, 16, 8)
    height = occ.sum(-1)
    seen = height > 0
    idx = (height - 1).clamp(min=0)
    top.scatter_(3, idx.unsqueeze(-1), seen.float().unsqueeze(-1))
    return TensorDataset(top.unsqueeze(1) * 2 - 0.1 + 0.1 * torch.randn(n, 1, 16, 16, 8, generator=g), label)


class SSANet(nn.Module):
    def __init__(self, nc=3, f=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv3d(1, f, 3, padding=1), nn.ReLU(), nn.Conv3d(f, f, 3, padding=1), nn.ReLU())
        self.column = nn.Linear(f * 8, f * 8)
        self.head4 = nn.Conv3d(f, nc, 1)
        self.head1 = nn.Conv3d(f, nc, 1)

    def forward(self, x):
        e = self.enc(x)
        b, c, w, h, z = e.shape
        col = torch.relu(self.column(e.permute(0, 2, 3, 1, 4).reshape(b, w, h, c * z)))
        d = e + col.view(b, w, h, c, z).permute(0, 3, 1, 2, 4)
        return {"pred_semantic_1_1": self.head1(d),
                "pred_semantic_1_4": self.head4(F.avg_pool3d(d, 4))}

    def compute_loss(self, scores, label):
        loss_1_1 = F.cross_entropy(scores["pred_semantic_1_1"], label)
        coarse = F.max_pool3d(label.float().unsqueeze(1), 4).squeeze(1).long()
        loss_1_4 = F.cross_entropy(scores["pred_semantic_1_4"], coarse)
        occupied = 1 - torch.softmax(scores["pred_semantic_1_1"], 1)[:, 0]
        truth = (label > 0).float()
        inter, union = (occupied * truth).sum((1, 2, 3)), (occupied + truth - occupied * truth).sum((1, 2, 3))
        return {"total": loss_1_1 + 0.3 * loss_1_4, "semantic_1_1": loss_1_1, "semantic_1_4": loss_1_4,
                "completion": (1 - inter / union).mean()}


def train(model, optimizer, loaders, nbr_epochs):
    keys = ["total", "semantic_1_1", "semantic_1_4", "completion"]
    for epoch in range(nbr_epochs):
        model.train()
        epoch_losses = {k: [] for k in keys}
        for t, (inputs, label) in enumerate(loaders["train"]):
            scores = model(inputs)
            loss = model.compute_loss(scores, label)
            optimizer.zero_grad()
            loss["total"].backward()
            optimizer.step()
            for key in keys:
                epoch_losses[key].append(loss[key].item())
        mean = {k: float(sum(v) / len(v)) for k, v in epoch_losses.items()}
        print("epoch {}/{} ".format(epoch + 1, nbr_epochs) + "  ".join("{} {:.4f}".format(k, mean[k]) for k in keys))
        validate(model, loaders["val"], keys)


def validate(model, loader, keys):
    model.eval()
    val_losses = {k: 0.0 for k in keys}
    with torch.no_grad():
        for inputs, label in loader:
            loss = model.compute_loss(model(inputs), label)
            for key in keys:
                val_losses[key] += loss[key].item()
    print("   validation total {:.4f}".format(float(val_losses["total"] / len(loader))))


def main():
    torch.manual_seed(1)
    loaders = {"train": DataLoader(make_scenes(480, 0), batch_size=8, shuffle=True),
               "val": DataLoader(make_scenes(40, 1), batch_size=8)}
    model = SSANet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train(model, optimizer, loaders, nbr_epochs=2)


if __name__ == "__main__":
    main()
