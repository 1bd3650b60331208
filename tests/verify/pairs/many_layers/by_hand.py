import copy
import numpy as np
import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import initializer, TruncatedNormal
from mindspore.dataset import GeneratorDataset
from mindspore.experimental import optim


class Squares:
    def __init__(self, n):
        self.x = np.random.randn(n, 3, 8).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], np.float32(self.x[i].sum())


class Mix(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 4, 3, pad_mode='pad', padding=1, has_bias=True)
        self.up = nn.Conv1dTranspose(4, 4, 2, stride=2, pad_mode='pad', has_bias=True)
        self.norm = nn.GroupNorm(2, 4)
        self.act = nn.PReLU()
        self.ln = nn.LayerNorm((16,), epsilon=1e-5)
        self.lstm = nn.LSTM(16, 8, batch_first=True)
        self.gru = nn.GRU(8, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.attn = nn.MultiheadAttention(16, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
        self.emb = nn.Embedding(5, 16)
        self.cls = ms.Parameter(initializer(TruncatedNormal(0.02), (1, 1, 16)), name='cls')
        self.heads = nn.CellList([nn.Dense(16, 1) for _ in range(2)])

    def construct(self, x):
        x = self.ln(self.act(self.norm(self.up(self.conv1(x)))))
        x = ops.dropout2d(x.unsqueeze(-1), 0.4, self.training).squeeze(-1)
        x = ops.cat([self.cls.broadcast_to((x.shape[0], 1, 16)), x], axis=1) + self.emb(ops.arange(5) % 5)
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        x, _ = self.attn(x, x, x)
        x = self.layer(x)
        return (self.heads[0](x[:, 0]) + self.heads[1](x[:, 1])).squeeze(1)


data = Squares(20)
perm = ops.randperm(20).asnumpy()
net = Mix()
net.set_train()
ema = copy.deepcopy(net)
opt = optim.SGD(net.trainable_params(), lr=1e-2)
train = [data[int(i)] for i in perm[:14]]
test = [data[int(i)] for i in perm[14:]]
loader = GeneratorDataset(train, column_names=['x', 'y'], shuffle=True).batch(7, drop_remainder=True)


def forward_fn(x, y):
    return ops.mse_loss(net(x), y)


grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters)
for epoch in range(2):
    for x, y in loader:
        loss, grads = grad_fn(x, y)
        opt(grads)
        for e, p in zip(ema.get_parameters(), net.get_parameters()):
            ops.assign(e, e * 0.9 + p * 0.1)
net.set_train(False); ema.set_train(False)
out = [ema(ms.Tensor(np.stack([t[0] for t in test]))).asnumpy()]
RESULT = {'loss': loss.item(), 'out': out}
