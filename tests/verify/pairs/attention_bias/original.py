"""A third of the attention's bias, that of its keys, has noise for a gradient; the rest has a real one."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        attended = self.attention(x, x, x, need_weights=False)[0]
        return self.head(attended.mean(1))


model = Attending()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
RESULT = []
for _ in range(4):
    x, target = torch.randn(3, 5, 8), torch.randn(3, 1)
    loss = ((model(x) - target) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    RESULT.append(loss.item())
print(RESULT)
