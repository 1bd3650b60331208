import numpy as np, random
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 16, 10)
        self.head = nn.Linear(10, 3)
        self.drop = nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.randn(10) * 0.1 + 1)
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)
        nn.init.normal_(self.head.weight, std=0.2)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = self.drop(x.flatten(1))
        x = F.dropout(self.fc(x), 0.5, self.training) * self.scale
        return self.head(x)

torch.manual_seed(3)
X = torch.randn(24, 1, 4, 4)
y = torch.randint(0, 3, (24,))
loader = DataLoader(TensorDataset(X, y), batch_size=8, shuffle=True)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(2):
    net.train()
    for a, b in loader:
        noise = torch.rand_like(a) * 0.1 + torch.normal(0.0, 0.1, a.shape) + np.random.rand() * random.random()
        mask = torch.bernoulli(torch.full((a.shape[0], 1, 1, 1), 0.8))
        opt.zero_grad()
        loss = F.cross_entropy(net(a * mask + noise), b)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        acc = (net(X).argmax(1) == y).float().mean().item()
    print(f'epoch {epoch} loss {loss.item():.4f} acc {acc:.3f}')
perm = torch.randperm(5)
RESULT = {'acc': acc, 'perm': perm.numpy()}
