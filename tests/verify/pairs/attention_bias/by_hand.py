import mindspore as ms
from mindspore import nn, ops
from mindspore.experimental import optim

ms.set_seed(0)


class Attending(nn.Cell):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Dense(8, 1)

    def construct(self, x):
        attended = self.attention(x, x, x, need_weights=False)[0]
        return self.head(attended.mean(1))


def forward_fn(x, target):
    return ((model(x) - target) ** 2).mean()


model = Attending()
model.set_train()
optimizer = optim.AdamW(model.trainable_params(), lr=0.01, weight_decay=0.0)
grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters)
RESULT = []
for _ in range(4):
    x, target = ops.randn(3, 5, 8), ops.randn(3, 1)
    loss, grads = grad_fn(x, target)
    optimizer(grads)
    RESULT.append(loss.item())
print(RESULT)
