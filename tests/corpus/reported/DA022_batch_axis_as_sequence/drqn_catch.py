import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

BATCH_SIZE = 32
GAMMA = 0.9
LSTM_MEMORY = 48
SEQ = 4


class Catch:
    """A ball falls through a 6x5 field; move the paddle below it."""

    H, W = 6, 5

    def reset(self):
        self.t = 0
        self.ball = random.randrange(self.W)
        self.paddle = random.randrange(self.W)
        self.frames = deque([self._draw()] * SEQ, maxlen=SEQ)
        return np.stack(self.frames)

    def _draw(self):
        img = np.zeros((self.H, self.W), dtype=np.float32)
        img[self.t, self.ball] = 1.0
        img[-1, self.paddle] = 1.0
        return img

    def step(self, action):
        self.paddle = min(max(self.paddle + action - 1, 0), self.W - 1)
        self.t += 1
        self.frames.append(self._draw())
        done = self.t == self.H - 1
        reward = (1.0 if self.paddle == self.ball else -1.0) if done else 0.0
        return np.stack(self.frames), reward, done


class DQN(nn.Module):
    def __init__(self, n_action):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 30, 32)
        self.lstm = nn.LSTM(32, LSTM_MEMORY, 1)
        self.out = nn.Linear(LSTM_MEMORY, n_action)

    def forward(self, x):
        b, t = x.shape[:2]
        h = F.relu(self.conv1(x.reshape(b * t, 1, *x.shape[2:])))
        h = F.relu(self.fc(h.flatten(1))).view(b, t, -1)
        h, _ = self.lstm(h)
        return self.out(h[:, -1])


class Agent:
    def __init__(self, env):
        self.env = env
        self.dqn = DQN(3)
        self.target = DQN(3)
        self.target.load_state_dict(self.dqn.state_dict())
        self.optimizer = torch.optim.Adam(self.dqn.parameters(), lr=2e-3)
        self.replay = deque(maxlen=2000)

    def get_action(self, states, epsilon):
        if random.random() < epsilon:
            return random.randrange(3)
        with torch.no_grad():
            return int(self.dqn(torch.from_numpy(states).unsqueeze(0)).argmax(1))

    def play(self, episodes, epsilon):
        total = 0.0
        for _ in range(episodes):
            s, done = self.env.reset(), False
            while not done:
                a = self.get_action(s, epsilon)
                s2, r, done = self.env.step(a)
                self.replay.append((s, a, r, s2, float(done)))
                s, total = s2, total + r
        return total / episodes

    def optimize(self):
        s, a, r, s2, d = zip(*random.sample(self.replay, BATCH_SIZE))
        s, s2 = torch.from_numpy(np.stack(s)), torch.from_numpy(np.stack(s2))
        a, r, d = torch.tensor(a), torch.tensor(r), torch.tensor(d)
        q = self.dqn(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            target = r + GAMMA * (1 - d) * self.target(s2).max(1)[0]
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train(self, steps=500):
        self.play(120, 1.0)
        losses = []
        for step in range(1, steps + 1):
            self.play(1, max(0.1, 1.0 - step / 250))
            losses.append(self.optimize())
            if step % 20 == 0:
                self.target.load_state_dict(self.dqn.state_dict())
            if step % 100 == 0:
                print(f"step {step} loss {np.mean(losses[-100:]):.4f} greedy reward {self.play(20, 0.0):.2f}", flush=True)


if __name__ == "__main__":
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    Agent(Catch()).train()
