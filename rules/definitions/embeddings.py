"""Tables of embeddings with the settings that MindSpore's lack."""

from mindspore import nn, ops
from mindspore.common.initializer import Normal


class PaddedEmbedding(nn.Embedding):
    def construct(self, ids):
        return embedding(ids, self.embedding_table, self.padding_idx)


class RenormedEmbedding(nn.Embedding):
    def __init__(self, vocab_size, embedding_size, padding_idx=None, max_norm=None, norm_type=2.0):
        super().__init__(vocab_size, embedding_size, embedding_table=Normal(1.0), padding_idx=padding_idx)
        self.max_norm = max_norm
        self.norm_type = norm_type

    def construct(self, ids):
        table = ops.stop_gradient(self.embedding_table)
        norms = ops.pow(ops.pow(ops.abs(table), self.norm_type).sum(1, keepdims=True), 1.0 / self.norm_type)
        asked = (ops.arange(self.vocab_size).expand_dims(1) == ids.reshape(-1)).any(1, keep_dims=True)
        large = ops.logical_and(asked, norms > self.max_norm)
        ops.assign(self.embedding_table, ops.where(large, table * (self.max_norm / (norms + 1e-7)), table))
        return embedding(ids, self.embedding_table, self.padding_idx)


def pretrained_embedding(weight, freeze=True, padding_idx=None):
    layer = PaddedEmbedding(*weight.shape, padding_idx=padding_idx)
    layer.embedding_table.set_data(weight)
    layer.embedding_table.requires_grad = not freeze
    return layer


def embedding(ids, weight, padding_idx=None):
    rows = ops.gather(weight, ids, 0)
    if padding_idx is None:
        return rows
    padding = ids == (padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0])
    return ops.where(padding.expand_dims(-1), ops.stop_gradient(rows), rows)


class EmbeddingBag(nn.Embedding):
    def __init__(self, num_embeddings, embedding_dim, mode="mean", padding_idx=None, include_last_offset=False):
        super().__init__(num_embeddings, embedding_dim, embedding_table=Normal(1.0), padding_idx=padding_idx)
        self.mode = mode
        self.include_last_offset = include_last_offset

    def construct(self, input, offsets=None, per_sample_weights=None):
        return embedding_bag(input, self.embedding_table, offsets, self.mode, per_sample_weights,
                             self.include_last_offset, self.padding_idx)


def pretrained_bag(weight, freeze=True, **options):
    layer = EmbeddingBag(*weight.shape, **options)
    layer.embedding_table.set_data(weight)
    layer.embedding_table.requires_grad = not freeze
    return layer


def embedding_bag(ids, weight, offsets=None, mode="mean", per_sample_weights=None, include_last_offset=False,
                  padding_idx=None):
    if offsets is None:
        bags = [(ids[i], None if per_sample_weights is None else per_sample_weights[i]) for i in range(ids.shape[0])]
    else:
        ends = offsets.asnumpy().tolist()
        ends = ends if include_last_offset else [*ends, ids.shape[0]]
        bags = [(ids[a:b], None if per_sample_weights is None else per_sample_weights[a:b])
                for a, b in zip(ends, ends[1:])]
    return ops.stack([_reduced_bag(bag, weight, mode, scale, padding_idx) for bag, scale in bags])


def _reduced_bag(bag, weight, mode, scale, padding_idx):
    if padding_idx is not None:
        padding_idx %= weight.shape[0]
        kept = [i for i, n in enumerate(bag.asnumpy().tolist()) if n != padding_idx]
        bag = bag[kept] if kept else bag[:0]
    if bag.shape[0] == 0:
        return ops.zeros(weight.shape[1], dtype=weight.dtype)
    rows = ops.gather(weight, bag, 0)
    rows = rows if scale is None else rows * scale.expand_dims(1)
    return rows.sum(0) if mode == "sum" else rows.mean(0) if mode == "mean" else rows.amax(0)
