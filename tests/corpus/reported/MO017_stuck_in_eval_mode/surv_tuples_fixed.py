import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class MLPVanilla(nn.Module):
    def __init__(self, in_features, num_nodes, out_features, dropout=0.2):
        super().__init__()
        layers, prev = [], in_features
        for n in num_nodes:
            layers += [nn.Linear(prev, n), nn.ReLU(), nn.BatchNorm1d(n), nn.Dropout(dropout)]
            prev = n
        layers.append(nn.Linear(prev, out_features))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


class TrainingLogger:
    def __init__(self):
        self.rows = []

    def add(self, epoch, train, val):
        self.rows.append((epoch, train, val))
        print(f"{epoch}:\ttrain_loss: {train:.4f},\tval_loss: {val:.4f}")


class Model:
    def __init__(self, net, loss, optimizer):
        self.net = net
        self.loss = loss
        self.optimizer = optimizer
        self.log = TrainingLogger()

    def compute_metrics(self, data):
        x, target = data
        return self.loss(self.net(x), target)

    def score_in_batches(self, dataloader, eval_=True):
        if eval_:
            self.net.eval()
        scores, sizes = [], []
        with torch.no_grad():
            for data in dataloader:
                scores.append(self.compute_metrics(data).item())
                sizes.append(len(data[0]))
        if eval_:
            self.net.train()
        return float(np.average(scores, weights=sizes))

    def predict(self, x):
        self.net.eval()
        with torch.no_grad():
            preds = self.net(x)
        self.net.train()
        return preds

    def fit_dataloader(self, dataloader, epochs, val_dataloader):
        self.net.train()
        for epoch in range(epochs):
            batch_losses = []
            for data in dataloader:
                self.optimizer.zero_grad()
                loss = self.compute_metrics(data)
                loss.backward()
                self.optimizer.step()
                batch_losses.append(loss.item())
            self.log.add(epoch, float(np.mean(batch_losses)), self.score_in_batches(val_dataloader))
        return self.log


def make_patients(n, seed):
    """Standardised covariates and standardised log survival time."""
    rng = np.random.RandomState(seed)
    x = rng.randn(n, 12).astype("float32")
    risk = 0.8 * x[:, 0] - 0.6 * x[:, 1] + 0.7 * x[:, 2] * x[:, 3] + 0.5 * np.maximum(x[:, 4], 0)
    log_t = -risk + 0.3 * rng.randn(n)
    log_t = (log_t + 0.2) / 1.3
    return torch.from_numpy(x), torch.from_numpy(log_t.astype("float32")).unsqueeze(1)


if __name__ == "__main__":
    torch.manual_seed(1234)
    np.random.seed(1234)
    train = TensorDataset(*make_patients(2048, 0))
    val = TensorDataset(*make_patients(512, 1))
    x_test, y_test = make_patients(512, 2)

    net = MLPVanilla(12, [64, 64], 1, dropout=0.2)
    model = Model(net, nn.MSELoss(), torch.optim.Adam(net.parameters(), lr=0.005))
    model.fit_dataloader(
        DataLoader(train, batch_size=128, shuffle=True), epochs=14,
        val_dataloader=DataLoader(val, batch_size=256))

    pred = model.predict(x_test)
    print("test mse: %.4f (of the mean: %.4f)" % (
        ((pred - y_test) ** 2).mean().item(), y_test.var().item()))
