import numpy as np, random
import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import initializer, XavierUniform, Normal
from mindspore.dataset import NumpySlicesDataset
from mindspore.experimental import optim

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, pad_mode='pad', padding=1, has_bias=True)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Dense(4 * 16, 10, bias_init='zeros')
        self.head = nn.Dense(10, 3, weight_init=Normal(0.2))
        self.drop = nn.Dropout(p=0.3)
        self.scale = ms.Parameter(ops.randn(10) * 0.1 + 1, name='scale')
        self.fc.weight.set_data(initializer(XavierUniform(), self.fc.weight.shape))

    def construct(self, x):
        x = ops.relu(self.bn(self.conv(x)))
        x = self.drop(x.flatten(start_dim=1))
        x = ops.dropout(self.fc(x), 0.5, self.training) * self.scale
        return self.head(x)

ms.set_seed(3)
X = ops.randn(24, 1, 4, 4)
y = ops.randint(0, 3, (24,))
loader = NumpySlicesDataset((X.asnumpy(), y.asnumpy()), shuffle=True).batch(8)
net = Net()
opt = optim.AdamW(net.trainable_params(), lr=1e-2, weight_decay=0.0)

def forward_fn(a, b, mask, noise):
    return ops.cross_entropy(net(a * mask + noise), b)

grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters)
for epoch in range(2):
    net.set_train()
    for a, b in loader:
        noise = ops.rand_like(a) * 0.1 + ops.normal(a.shape, 0.0, 0.1) + np.random.rand() * random.random()
        mask = ops.bernoulli(ops.ones((a.shape[0], 1, 1, 1)), 0.8)
        loss, grads = grad_fn(a, b, mask, noise)
        opt(grads)
    net.set_train(False)
    acc = (net(X).argmax(1) == y).float().mean().item()
    print(f'epoch {epoch} loss {loss.item():.4f} acc {acc:.3f}')
perm = ops.randperm(5)
RESULT = {'acc': acc, 'perm': perm.asnumpy()}
