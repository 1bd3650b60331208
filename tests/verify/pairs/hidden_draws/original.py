import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Categorical, Normal
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, num_layers=2, dropout=0.3, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.q = nn.Linear(8, 8)
        self.d1 = nn.Dropout(0.2)
    def forward(self, x):
        x, _ = self.lstm(x)
        x = self.layer(x)
        q = self.q(x)
        x = F.scaled_dot_product_attention(q, x, x, dropout_p=0.1)
        x = F.dropout1d(x, 0.3, self.training)
        return self.d1(x)
net = N()
opt = torch.optim.SGD(net.parameters(), 0.05)
for i in range(3):
    x = torch.rand(2, 5, 4)
    logits = net(x).mean(1)
    action = Categorical(logits=logits).sample()
    noise = torch.normal(torch.zeros(2, 8), 0.1 * torch.ones(2, 8))
    loss = F.cross_entropy(logits + noise, action)
    opt.zero_grad(); loss.backward(); opt.step()

RESULT = {'loss': loss.item()}
