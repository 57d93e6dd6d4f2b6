import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class CatchBatch:
    """A batch of small arcade games; observations are already scaled to [0, 1]."""

    H, W = 6, 5
    n_actions = 3

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.RandomState(seed)
        self.ball = np.zeros(n, dtype=int)
        self.paddle = np.zeros(n, dtype=int)
        self.t = 0

    def reset(self):
        self.t = 0
        self.ball = self.rng.randint(0, self.W, self.n)
        self.paddle = self.rng.randint(0, self.W, self.n)
        return self.observe()

    def observe(self):
        screen = np.zeros((self.n, 1, self.H, self.W), dtype=np.uint8)
        i = np.arange(self.n)
        screen[i, 0, self.t, self.ball] = 255
        screen[i, 0, self.H - 1, self.paddle] = 255
        return screen.astype("float32") / 255.0

    def step(self, actions):
        self.paddle = np.clip(self.paddle + actions - 1, 0, self.W - 1)
        self.t += 1
        done = self.t == self.H - 1
        reward = np.where(self.paddle == self.ball, 1.0, -1.0) if done else np.zeros(self.n)
        return self.observe(), reward.astype("float32"), done


class PreprocessScreen:
    """Crops nothing here, but keeps the interface of the full game."""

    def __init__(self, env):
        self.env = env
        self.n_actions = env.n_actions

    def observation(self, img):
        img = np.asarray(img, dtype="float32")
        return torch.from_numpy(img)

    def reset(self):
        return self.observation(self.env.reset())

    def step(self, actions):
        obs, r, done = self.env.step(actions)
        return self.observation(obs), torch.from_numpy(r), done


class Agent(nn.Module):
    def __init__(self, n_actions):
        super().__init__()
        self.conv = nn.Conv2d(1, 12, 3, padding=1)
        self.hidden = nn.Linear(12 * 30, 64)
        self.logits = nn.Linear(64, n_actions)
        self.state_value = nn.Linear(64, 1)

    def forward(self, s):
        h = F.relu(self.conv(s))
        h = F.relu(self.hidden(h.flatten(1)))
        return self.logits(h), self.state_value(h).squeeze(-1)


def play(agent, env, greedy=False):
    obs, done = env.reset(), False
    states, actions, rewards = [], [], []
    while not done:
        with torch.no_grad():
            logits, _ = agent(obs)
        a = logits.argmax(1) if greedy else torch.distributions.Categorical(logits=logits).sample()
        states.append(obs)
        actions.append(a)
        obs, r, done = env.step(a.numpy())
        rewards.append(r)
    return torch.stack(states), torch.stack(actions), torch.stack(rewards)


def train_on_rollout(agent, opt, states, actions, rewards, gamma=0.99, ent=0.003):
    T, n = rewards.shape
    returns = torch.zeros_like(rewards)
    acc = torch.zeros(n)
    for t in reversed(range(T)):
        acc = rewards[t] + gamma * acc
        returns[t] = acc
    logits, values = agent(states.flatten(0, 1))
    logp = F.log_softmax(logits, -1)
    chosen = logp.gather(1, actions.flatten()[:, None]).squeeze(1)
    advantage = returns.flatten() - values
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(chosen * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - ent * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), advantage.pow(2).mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    env, eval_env = PreprocessScreen(CatchBatch(24, 1)), PreprocessScreen(CatchBatch(100, 2))
    agent = Agent(env.n_actions)
    opt = torch.optim.Adam(agent.parameters(), lr=3e-3)
    td = []
    for i in range(1, 301):
        loss, critic = train_on_rollout(agent, opt, *play(agent, env))
        td.append(critic)
        if i % 50 == 0:
            mean_reward = play(agent, eval_env, greedy=True)[2].sum(0).mean().item()
            print(f"iter {i} loss {loss:+.4f} critic {np.mean(td[-50:]):.4f} mean reward {mean_reward:+.3f}", flush=True)
