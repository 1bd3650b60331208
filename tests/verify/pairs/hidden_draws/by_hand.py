import mindspore as ms
from mindspore import nn, ops
from mindspore.experimental import optim
class N(nn.Cell):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, num_layers=2, dropout=0.3, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.q = nn.Dense(8, 8)
        self.d1 = nn.Dropout(p=0.2)
    def construct(self, x):
        x, _ = self.lstm(x)
        x = self.layer(x)
        q = self.q(x)
        a = ops.softmax(q @ x.swapaxes(-2, -1) * 8 ** -0.5, axis=-1)
        x = ops.dropout(a, 0.1) @ x
        x = ops.dropout1d(x, 0.3, self.training)
        return self.d1(x)
net = N()
net.set_train()
opt = optim.SGD(net.trainable_params(), 0.05)
def forward_fn(x):
    logits = net(x).mean(1)
    action = ops.multinomial(ops.softmax(ops.stop_gradient(logits), axis=-1), 1).squeeze(1)
    noise = ops.normal((2, 8), 0.0, 0.1)
    return ops.cross_entropy(logits + noise, action)
grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters)
for i in range(3):
    x = ops.rand(2, 5, 4)
    loss, grads = grad_fn(x)
    opt(grads)

RESULT = {'loss': loss.item()}
