"""Sequences of different lengths, batches made of samples, and vectors of parameters."""

import mindspore as ms
import numpy as np
from mindspore import ops


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    length = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        rest = ops.full((length - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype)
        parts = (s, rest) if padding_side == "right" else (rest, s)
        padded.append(ops.cat(parts) if rest.shape[0] else s)
    return ops.stack(padded, axis=0 if batch_first else 1)


def unpad_sequence(padded, lengths, batch_first=False):
    padded = padded if batch_first else padded.swapaxes(0, 1)
    return [padded[i, : int(n)] for i, n in enumerate(lengths)]


def pack_padded_sequence(batch, lengths, batch_first=False):
    """A batch of sequences and their lengths, which recurrent layers take together."""
    return batch if batch_first else batch.swapaxes(0, 1), ms.Tensor(lengths, ms.int32)


def pack_sequence(sequences):
    return pad_sequence(sequences, True), ms.Tensor([s.shape[0] for s in sequences], ms.int32)


def packed_layer(layer, packed, state=None):
    """What a recurrent layer gives for a batch of sequences, to the end of each one."""
    padded, lengths = packed
    if layer.batch_first:
        output, state = layer(padded, state, lengths)
        return (output, lengths), state
    output, state = layer(padded.swapaxes(0, 1), state, lengths)
    return (output.swapaxes(0, 1), lengths), state


def unbatched(layer, sequence, state=None):
    """What a recurrent layer gives for a single sequence, which has no axis for the batch."""
    if state is not None:
        state = tuple(s.expand_dims(1) for s in state) if isinstance(state, tuple) else state.expand_dims(1)
    axis = 0 if layer.batch_first else 1
    output, state = layer(sequence.expand_dims(axis), state)
    state = tuple(s.squeeze(1) for s in state) if isinstance(state, tuple) else state.squeeze(1)
    return output.squeeze(axis), state


def target_rows(targets, lengths):
    """The targets of CTC in rows, one for each sequence, also where they stand one behind the other."""
    if targets.ndim == 2:
        return targets
    lengths, targets = np.asarray(lengths).reshape(-1), targets.asnumpy()
    rows = np.zeros((len(lengths), max(1, lengths.max())), targets.dtype)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = targets[: lengths.sum()]
    return ms.Tensor(rows)


def ctc_in_rows(loss, log_probs, targets, input_lengths, target_lengths):
    """A CTC loss of targets that stand in rows, or one behind the other; lengths may be lists."""
    lengths = [n if isinstance(n, ms.Tensor) else ms.Tensor(n) for n in (input_lengths, target_lengths)]
    return loss(log_probs, target_rows(targets, target_lengths), *lengths)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The targets stand one behind the other, or belong to one sample alone; MindSpore wants them in rows."""
    single = log_probs.ndim == 2
    if single:
        target_lengths = ms.Tensor(np.asarray(target_lengths).reshape(-1))
        log_probs, input_lengths = log_probs.unsqueeze(1), ms.Tensor(np.asarray(input_lengths).reshape(1))

    def loss(*given):
        return ops.ctc_loss(*given, blank, reduction, zero_infinity)[0]

    found = ctc_in_rows(loss, log_probs, targets, input_lengths, target_lengths)
    return found.reshape(()) if single else found


def layer_by_layer(layer):
    """Lists the parameters of a recurrent layer as PyTorch does: all of the first layer, then all of the second."""
    kinds = (layer.w_ih_list, layer.w_hh_list, layer.b_ih_list, layer.b_hh_list)
    for weight in [weight for group in zip(*filter(len, kinds)) for weight in group]:
        delattr(layer, weight.name)
        setattr(layer, weight.name, weight)
    return layer


def pad_packed_sequence(packed, batch_first=False, padding_value=0.0, total_length=None):
    padded, lengths = packed
    longest = int(lengths.max())
    padded = padded[:, :longest]
    rest = (total_length or longest) - longest
    if rest > 0:
        padded = ops.cat((padded, ops.zeros((padded.shape[0], rest, *padded.shape[2:]), padded.dtype)), 1)
    inside = ops.arange(padded.shape[1]) < lengths.expand_dims(1)
    inside = inside.reshape(inside.shape + (1,) * (padded.ndim - 2))
    padded = ops.where(inside, padded, ms.Tensor(padding_value, padded.dtype))
    return padded if batch_first else padded.swapaxes(0, 1), lengths.astype(ms.int64)


def unpack_sequence(packed):
    padded, lengths = packed
    return [sequence[: int(n)] for sequence, n in zip(padded, lengths)]


def vector_to_parameters(vector, parameters):
    start = 0
    for p in parameters:
        ops.assign(p, vector[start : start + p.size].reshape(p.shape))
        start += p.size


def total_norm(tensors, norm_type=2.0):
    return ops.norm(ops.stack([ops.norm(t.reshape(-1), ord=norm_type) for t in tensors]), ord=norm_type)


class IndexSampler:
    """Indices that are drawn anew for every pass."""

    def __init__(self, draw, *args, **options):
        self.draw, self.args, self.options = draw, args, options
        self.count = len(draw(*args, **options))

    def __iter__(self):
        return iter(np.asarray(self.draw(*self.args, **self.options)).tolist())

    def __len__(self):
        return self.count


def drawn_indices(size, count=None, replacement=False):
    if replacement:
        return np.random.randint(0, size, count or size)
    rounds = [np.random.permutation(size) for _ in range(-(-(count or size) // size))]
    return np.concatenate(rounds)[: count or size]


def weighted_indices(weights, count, replacement):
    shares = np.asarray(weights, np.float64)
    return np.random.choice(len(shares), count, replacement, shares / shares.sum())


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
