import random
from collections import deque

import torch
import torch.nn as nn


class Config:
    def __init__(self):
        self.n_states, self.n_actions, self.hidden_dim = 2, 4, 64
        self.gamma, self.lr, self.batch_size = 0.9, 1e-3, 64
        self.memory_capacity, self.target_update = 4000, 40
        self.train_eps, self.ep_max_steps = 60, 12
        self.epsilon_start, self.epsilon_end = 1.0, 0.1
        self.device = "cpu"


class PointEnv:
    MOVES = torch.tensor([[0.25, 0.0], [-0.25, 0.0], [0.0, 0.25], [0.0, -0.25]])

    def __init__(self, max_steps):
        self.max_steps = max_steps

    def reset(self):
        self.pos = torch.rand(2) * 2 - 1
        self.t = 0
        return self.pos.clone()

    def step(self, action):
        self.pos = (self.pos + self.MOVES[action]).clamp(-1, 1)
        self.t += 1
        reward = 0.5 - self.pos.norm().item()
        return self.pos.clone(), reward, self.t >= self.max_steps


class DuelingNet(nn.Module):
    def __init__(self, n_states, n_actions, hidden_dim=64):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(n_states, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, hidden_dim), nn.ReLU())
        self.advantage = nn.Linear(hidden_dim, n_actions)
        self.value = nn.Linear(hidden_dim, 1)

    def forward(self, x):
        h = self.hidden(x)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class DuelingDQN:
    def __init__(self, model, cfg):
        self.cfg = cfg
        self.policy_net = model.to(cfg.device)
        self.target_net = model.to(cfg.device)
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=cfg.lr)
        self.memory = deque(maxlen=cfg.memory_capacity)
        self.updates = 0
        self.epsilon = cfg.epsilon_start

    @torch.no_grad()
    def sample_action(self, state, greedy=False):
        if not greedy and random.random() < self.epsilon:
            return random.randrange(self.cfg.n_actions)
        return int(self.policy_net(state.unsqueeze(0)).argmax(dim=1))

    def update(self):
        if len(self.memory) < self.cfg.batch_size:
            return None
        states, actions, rewards, next_states = zip(*random.sample(self.memory, self.cfg.batch_size))
        q = self.policy_net(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        with torch.no_grad():
            next_q = self.target_net(torch.stack(next_states)).max(dim=1).values
            expected = torch.tensor(rewards) + self.cfg.gamma * next_q
        loss = nn.functional.mse_loss(q, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % self.cfg.target_update == 0:
            self.target_net.load_state_dict(self.policy_net.state_dict())
        return loss.item()


def train(cfg, env, agent):
    losses = []
    for ep in range(cfg.train_eps):
        agent.epsilon = max(cfg.epsilon_end, cfg.epsilon_start * (1 - ep / (0.6 * cfg.train_eps)))
        state, done, ep_reward = env.reset(), False, 0.0
        while not done:
            action = agent.sample_action(state)
            next_state, reward, done = env.step(action)
            agent.memory.append((state, action, reward, next_state))
            state = next_state
            ep_reward += reward
            loss = agent.update()
            if loss is not None:
                losses.append(loss)
        if (ep + 1) % 10 == 0:
            print(f"episode {ep + 1}/{cfg.train_eps} reward {ep_reward:.2f} epsilon {agent.epsilon:.2f} "
                  f"loss {sum(losses[-100:]) / len(losses[-100:]):.4f}")


def test(env, agent, episodes=20):
    total = 0.0
    for _ in range(episodes):
        state, done = env.reset(), False
        while not done:
            state, reward, done = env.step(agent.sample_action(state, greedy=True))
            total += reward
    return total / episodes


if __name__ == "__main__":
    random.seed(1)
    torch.manual_seed(1)
    cfg = Config()
    env = PointEnv(cfg.ep_max_steps)
    model = DuelingNet(cfg.n_states, cfg.n_actions, cfg.hidden_dim)
    agent = DuelingDQN(model, cfg)
    train(cfg, env, agent)
    print(f"test reward {test(env, agent):.3f}")
