"""Loaders whose batches a MindSpore pipeline cannot hold: dictionaries, lists, what a function puts together."""

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.dataset import GeneratorDataset


def default_collate(batch):
    first = batch[0]
    if isinstance(first, ms.Tensor):
        return ops.stack(batch)
    if isinstance(first, (bool, int, float, np.ndarray)):
        return ms.Tensor(np.array(batch, np.float64 if isinstance(first, float) else None))
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        return [default_collate(column) for column in zip(*batch)]
    return list(batch)


def random_split(dataset, shares):
    """Parts of a dataset, drawn; what is left over goes to the first parts one by one."""
    lengths = [int(len(dataset) * share) for share in shares] if sum(shares) <= 1 else list(shares)
    for i in range(len(dataset) - sum(lengths)):
        lengths[i % len(lengths)] += 1
    order = ops.randperm(len(dataset)).asnumpy()
    return [[dataset[int(i)] for i in part] for part in np.split(order, np.cumsum(lengths)[:-1])]


class CollatedLoader:
    """Batches of samples as `collate_fn` puts them together; MindSpore's pipeline brings the order of the indices."""

    def __init__(self, source, batch_size, collate_fn, drop_remainder=False, **order):
        self.source, self.collate_fn = source, collate_fn
        indices = GeneratorDataset(range(len(source)), ["index"], **order)
        self.children = [self]  # where a MindSpore dataset in batches has its source
        self.batches = indices.batch(batch_size, drop_remainder=drop_remainder)

    def __iter__(self):
        for (indices,) in self.batches.create_tuple_iterator(num_epochs=1, output_numpy=True):
            yield self.collate_fn([self.source[int(i)] for i in indices])

    def __len__(self):
        return self.batches.get_dataset_size()

    def get_batch_size(self):
        return self.batches.get_batch_size()


class Loader(CollatedLoader):
    """A loader with PyTorch's arguments."""

    def __init__(self, dataset, batch_size=1, shuffle=False, sampler=None, num_workers=0, collate_fn=None,
                 drop_last=False):
        order = {"shuffle": bool(shuffle)} if sampler is None else {"sampler": sampler}
        super().__init__(dataset, batch_size, collate_fn or default_collate, drop_last, **order)


class SampledLoader:
    """Batches of the samples whose indices `batch_sampler` gives, as `collate_fn` puts them together."""

    def __init__(self, source, batch_sampler, collate_fn):
        self.source, self.batch_sampler, self.collate_fn = source, batch_sampler, collate_fn
        self.children = [self]  # where a MindSpore dataset in batches has its source

    def __iter__(self):
        for indices in self.batch_sampler:
            yield self.collate_fn([self.source[int(i)] for i in indices])

    def __len__(self):
        return len(self.batch_sampler)
