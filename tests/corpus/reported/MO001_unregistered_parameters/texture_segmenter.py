import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

parser = argparse.ArgumentParser(description="small conv segmenter")
parser.add_argument("--nChannel", default=12, type=int, help="number of channels")
parser.add_argument("--nConv", default=3, type=int, help="number of convolutional layers")
parser.add_argument("--epochs", default=7, type=int)
parser.add_argument("--lr", default=0.05, type=float)
args = parser.parse_args()


class MyNet(nn.Module):
    def __init__(self, input_dim, n_classes):
        super(MyNet, self).__init__()
        self.conv1 = nn.Conv2d(input_dim, args.nChannel, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(args.nChannel)
        self.conv2 = []
        self.bn2 = []
        for i in range(args.nConv - 1):
            self.conv2.append(nn.Conv2d(args.nChannel, args.nChannel, kernel_size=3, stride=1, padding=1, bias=False))
            self.bn2.append(nn.BatchNorm2d(args.nChannel))
        self.conv3 = nn.Conv2d(args.nChannel, n_classes, kernel_size=1, stride=1, padding=0)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for i in range(args.nConv - 1):
            x = torch.relu(self.bn2[i](self.conv2[i](x)))
        return self.conv3(x)


def make_scenes(n, seed, size=16):
    """Three regions per scene, told apart by texture (horizontal, vertical, checker), not by colour."""
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    textures = torch.stack([((yy // 1) % 2).float(), ((xx // 1) % 2).float(), ((xx + yy) % 2).float()]) * 2 - 1
    images, labels = torch.zeros(n, 3, size, size), torch.zeros(n, size, size, dtype=torch.long)
    for i in range(n):
        a, b = torch.randint(5, 12, (2,), generator=g).tolist()
        lab = torch.zeros(size, size, dtype=torch.long)
        lab[:, a:] = 1
        lab[b:, :a] = 2
        perm = torch.randperm(3, generator=g)
        lab = perm[lab]
        tex = textures.gather(0, lab.unsqueeze(0))[0]
        colour = 0.6 + 0.4 * torch.rand(3, 1, 1, generator=g)
        images[i] = tex * colour + 0.7 * torch.randn(3, size, size, generator=g)
        labels[i] = lab
    return images, labels


torch.manual_seed(0)
train_set = TensorDataset(*make_scenes(240, 0))
val_set = TensorDataset(*make_scenes(60, 1))
train_loader = DataLoader(train_set, batch_size=16, shuffle=True)
val_loader = DataLoader(val_set, batch_size=30)

model = MyNet(3, 3)
print("parameters:", sum(p.numel() for p in model.parameters()))
loss_fn = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

for epoch in range(args.epochs):
    model.train()
    total = 0.0
    for img, target in train_loader:
        optimizer.zero_grad()
        output = model(img)
        loss = loss_fn(output, target)
        loss.backward()
        optimizer.step()
        total += loss.item()

    model.eval()
    correct, count, vloss = 0, 0, 0.0
    with torch.no_grad():
        for img, target in val_loader:
            out = model(img)
            vloss += loss_fn(out, target).item()
            correct += (out.argmax(1) == target).sum().item()
            count += target.numel()
    print(epoch, "/", args.epochs, ":", "loss %.4f" % (total / len(train_loader)),
          "val loss %.4f" % (vloss / len(val_loader)), "pixel acc %.3f" % (correct / count))
