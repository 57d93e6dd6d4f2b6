import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
STATE, ACTION = 8, 2
_g = torch.Generator().manual_seed(31)
A = 0.9 * torch.linalg.qr(torch.randn(STATE, STATE, generator=_g))[0]
B = 0.7 * torch.randn(ACTION, STATE, generator=_g)


def simulate(n, horizon, seed):
    g = torch.Generator().manual_seed(seed)
    s = torch.randn(n, STATE, generator=g)
    states, actions = [s], []
    for _ in range(horizon):
        a = torch.rand(n, ACTION, generator=g) * 2 - 1
        s = torch.sin(1.5 * (s @ A)) + a @ B
        states.append(s)
        actions.append(a)
    return torch.stack(states, 1), torch.stack(actions, 1)


class WorldModel(nn.Module):
    def __init__(self, latent=48):
        super().__init__()
        self.enc = nn.Linear(STATE, latent)
        self.cell = nn.GRUCell(ACTION, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ELU(), nn.Linear(64, STATE))

    def forward(self, s0, actions):
        h = torch.tanh(self.enc(s0))
        out = []
        for t in range(actions.shape[1]):
            h = self.cell(actions[:, t], h)
            out.append(self.dec(h))
        return torch.stack(out, 1)


class LitWorldModel:
    def __init__(self, clip=0.18, lr=0.2):
        self.model = WorldModel()
        self.clip = clip
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def training_step(self, batch):
        states, actions = batch
        loss = F.mse_loss(self.model(states[:, 0], actions), states[:, 1:])
        self.log_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss

    def configure_gradient_clipping(self):
        pass

    @torch.no_grad()
    def validation_step(self, batch):
        states, actions = batch
        return F.mse_loss(self.model(states[:, 0], actions), states[:, 1:]).item()


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, module, train, valid, batch_size=32):
        n = len(train[0])
        for epoch in range(self.epochs):
            module.model.train()
            losses = []
            for idx in torch.randperm(n).split(batch_size):
                loss = module.training_step((train[0][idx], train[1][idx]))
                module.optimizer.zero_grad()
                loss.backward()
                module.configure_gradient_clipping()
                module.optimizer.step()
                losses.append(loss.item())
            module.model.eval()
            print(f"epoch {epoch} train {sum(losses) / len(losses):.4f} valid {module.validation_step(valid):.4f} "
                  f"grad_norm {float(module.log_norm):.3f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    Trainer(epochs=8).fit(LitWorldModel(), simulate(960, 3, 1), simulate(192, 3, 2))
