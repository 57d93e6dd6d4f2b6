import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class DoublePointMass:
    """Batch of 2-d point masses; the expert brakes and steers towards the origin around a vortex."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.pos = torch.rand(self.n, 2, generator=self.g) * 4 - 2
        self.vel = torch.rand(self.n, 2, generator=self.g) * 2 - 1
        return self.obs()

    def obs(self):
        return torch.cat([self.pos / 2, self.vel], 1)

    def expert(self):
        swirl = torch.stack([-self.pos[:, 1], self.pos[:, 0]], 1) / (0.5 + self.pos.norm(dim=1, keepdim=True))
        return torch.tanh(-1.2 * self.pos - 0.8 * self.vel + 0.9 * swirl)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.3 * action + 0.05 * torch.randn(self.n, 2, generator=self.g)
        self.pos = (self.pos + 0.2 * self.vel).clamp(-3, 3)
        return self.obs()


def collect(n_env, length, seed):
    env = DoublePointMass(n_env, seed)
    obs, acts = [], []
    o = env.reset()
    for t in range(length):
        a = env.expert()
        obs.append(o)
        acts.append(a + 0.05 * torch.randn(a.shape, generator=env.g))
        o = env.step(a + 0.5 * torch.randn(a.shape, generator=env.g))
        if t % 10 == 9:
            o = env.reset()
    return torch.cat(obs), torch.cat(acts)


class ReplayBuffer:
    def __init__(self, obs, acts, seed):
        self.obs, self.acts = obs, acts
        self.g = torch.Generator().manual_seed(seed)

    def sample(self, n):
        idx = torch.randint(0, len(self.obs), (n,), generator=self.g)
        return self.obs[idx], self.acts[idx]


class Algorithm(nn.Module):
    """Actor with a learned action-noise scale, trained on replayed expert transitions."""

    def __init__(self, obs_dim=4, act_dim=2, hidden=64, lr=3e-3, gradient_accumulation_steps=8, clip=10.0):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                   nn.Linear(hidden, act_dim))
        self.log_std = nn.Parameter(torch.zeros(act_dim))
        self._optimizer = torch.optim.Adam(self.parameters(), lr=lr)
        self._accum = gradient_accumulation_steps
        self._clip = clip
        self._grad_acc_count = 0

    def calc_loss(self, obs, act):
        dist = torch.distributions.Normal(self.actor(obs), F.softplus(self.log_std) + 0.02)
        return -dist.log_prob(act).sum(-1).mean()

    def update_with_gradient(self, loss):
        self._optimizer.zero_grad()
        (loss / self._accum).backward()
        self._grad_acc_count += 1
        if self._grad_acc_count == self._accum:
            nn.utils.clip_grad_norm_(self.parameters(), self._clip)
            self._optimizer.step()
            self._grad_acc_count = 0

    def train_iter(self, buffer, mini_batch_size):
        total = 0.0
        for _ in range(self._accum):
            loss = self.calc_loss(*buffer.sample(mini_batch_size))
            self.update_with_gradient(loss)
            total += loss.item()
        return total / self._accum


def main():
    torch.manual_seed(21)
    buffer = ReplayBuffer(*collect(64, 60, seed=0), seed=2)
    test_obs, test_act = collect(16, 30, seed=1)
    alg = Algorithm()
    window = []
    for it in range(300):
        alg.train()
        window.append(alg.train_iter(buffer, mini_batch_size=8))
        if (it + 1) % 50 == 0:
            alg.eval()
            with torch.no_grad():
                err = F.mse_loss(alg.actor(test_obs), test_act).item()
                nll = alg.calc_loss(test_obs, test_act).item()
            print(f"iter {it + 1}: loss {sum(window) / len(window):.4f}, held-out nll {nll:.4f}, action mse {err:.4f}")
            window = []


if __name__ == "__main__":
    main()
