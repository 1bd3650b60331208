"""Sequences of different lengths, batches made of samples, and vectors of parameters."""

from mindspore import ops


def pad_sequence(sequences, batch_first=False, padding_value=0.0):
    length = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        rest = ops.full((length - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype)
        padded.append(ops.cat((s, rest)) if rest.shape[0] else s)
    return ops.stack(padded, axis=0 if batch_first else 1)


def unpad_sequence(padded, lengths, batch_first=False):
    padded = padded if batch_first else padded.swapaxes(0, 1)
    return [padded[i, : int(n)] for i, n in enumerate(lengths)]


def vector_to_parameters(vector, parameters):
    start = 0
    for p in parameters:
        ops.assign(p, vector[start : start + p.size].reshape(p.shape))
        start += p.size


def total_norm(tensors, norm_type=2.0):
    return ops.norm(ops.stack([ops.norm(t.reshape(-1), ord=norm_type) for t in tensors]), ord=norm_type)


class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last):
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
