"""A softmax whose frequent classes stand at the head, the others in clusters of ever smaller projections."""

import typing

import mindspore as ms
from mindspore import nn, ops


class AdaptiveOutput(typing.NamedTuple):
    output: ms.Tensor
    loss: ms.Tensor


class AdaptiveLogSoftmaxWithLoss(nn.Cell):
    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False):
        super().__init__()
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_classes = self.cutoffs[0], n_classes
        self.head = nn.Dense(in_features, self.shortlist_size + len(cutoffs), has_bias=head_bias)
        clusters = []
        for place, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (place + 1))
            inner = nn.Dense(in_features, width, has_bias=False), nn.Dense(width, high - low, has_bias=False)
            clusters.append(nn.SequentialCell(*inner))
        self.tail = nn.CellList(clusters)

    def log_prob(self, x):
        """Of all classes."""
        head, size = ops.log_softmax(self.head(x), 1), self.shortlist_size
        parts = [head[:, :size]]
        for place, cluster in enumerate(self.tail):
            parts.append(ops.log_softmax(cluster(x), 1) + head[:, size + place : size + place + 1])
        return ops.cat(parts, 1)

    def predict(self, x):
        return ops.stop_gradient(self.log_prob(x)).argmax(1)

    def construct(self, x, target):
        rows, places = (x, target) if target.ndim else (x.expand_dims(0), target.expand_dims(0))
        output = ops.gather_elements(self.log_prob(rows), 1, places.expand_dims(1)).squeeze(1)
        return AdaptiveOutput(output if target.ndim else output.squeeze(0), (-output).mean())
