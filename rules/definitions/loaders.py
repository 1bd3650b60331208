"""Loaders whose batches a MindSpore pipeline cannot hold: dictionaries, lists, what a function puts together."""

import itertools

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.dataset import GeneratorDataset


def default_collate(batch):
    first = batch[0]
    if isinstance(first, ms.Tensor):
        return ops.stack(batch)
    if isinstance(first, (bool, int, float, np.ndarray, np.number, np.bool_)):
        return ms.Tensor(np.array(batch, np.float64 if isinstance(first, float) else None))
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, (tuple, list)):
        return [default_collate(column) for column in zip(*batch)]
    return list(batch)


def default_convert(data):
    """Arrays become tensors, in containers too."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind not in "SU":
        return ms.Tensor(data)
    if isinstance(data, dict):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, (tuple, list)):
        return [default_convert(part) for part in data]
    return data


class TensorDataset:
    """Samples of tensors, which the program asks for, or writes into."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __getitem__(self, index):
        index = index if isinstance(index, slice) else int(index)
        return tuple(tensor[index] for tensor in self.tensors)

    def __iter__(self):
        return zip(*self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class ChainDataset:
    """The samples of several iterable datasets, one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            yield from dataset


class DistributedIndices:
    """The indices of one of several processes, as a program that iterates them itself needs them."""

    def __init__(self, dataset, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        self.count, self.replicas, self.rank = len(dataset), num_replicas, rank
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        rest = self.count % num_replicas
        short = rest if drop_last else 0
        self.total_size = self.count - short if short or not rest else self.count + num_replicas - rest
        self.num_samples = self.total_size // num_replicas

    def __iter__(self):
        order = np.arange(self.count)
        if self.shuffle:
            order = np.random.default_rng(self.seed + self.epoch).permutation(self.count)
        return iter(np.resize(order, self.total_size)[self.rank :: self.replicas].tolist())

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        self.epoch = epoch


def stacked(*datasets, **named):
    """Samples of several datasets side by side, by name where they have names."""
    places = range(len([*datasets, *named.values()][0]))
    if named:
        return [{name: dataset[i] for name, dataset in named.items()} for i in places]
    return [tuple(dataset[i] for dataset in datasets) for i in places]


class Subset:
    """Some of the samples of a dataset, which are asked for as they are needed."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        return self.dataset[int(self.indices[int(index)])]

    def __len__(self):
        return len(self.indices)


class ConcatDataset:
    """The samples of several datasets, one behind the other, which are asked for as they are needed."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __getitem__(self, index):
        index = range(len(self))[int(index)]
        for dataset, end in zip(self.datasets, self.cumulative_sizes):
            if index < end:
                return dataset[index - end + len(dataset)]

    def __len__(self):
        return self.cumulative_sizes[-1]


def random_split(dataset, lengths):
    """Parts of a dataset, drawn, by their lengths or shares; of these what is left over goes to the first parts."""
    if sum(lengths) <= 1:
        lengths = [int(len(dataset) * share) for share in lengths]
        for i in range(len(dataset) - sum(lengths)):
            lengths[i % len(lengths)] += 1
    order = ops.randperm(len(dataset)).asnumpy()
    return [Subset(dataset, part.tolist()) for part in np.split(order, np.cumsum(lengths)[:-1])]


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
    """A loader with PyTorch's arguments; those about workers and memory mean nothing here."""

    def __init__(self, dataset, batch_size=1, shuffle=False, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, *others, **named):
        order = {"shuffle": bool(shuffle)} if sampler is None else {"sampler": sampler}
        super().__init__(dataset, batch_size, collate_fn or default_collate, drop_last, **order)
        self.dataset, self.batch_size, self.sampler = dataset, batch_size, sampler
        self.batches_of_indices = batch_sampler

    def __iter__(self):
        if self.batches_of_indices is None:
            return super().__iter__()
        return (self.collate_fn([self.source[int(i)] for i in some]) for some in self.batches_of_indices)

    def __len__(self):
        return super().__len__() if self.batches_of_indices is None else len(self.batches_of_indices)


class IterableLoader:
    """Batches of what a dataset yields, as `collate_fn` puts them together."""

    def __init__(self, source, batch_size, collate_fn, drop_last=False):
        self.source, self.batch_size, self.collate_fn, self.drop_last = source, batch_size, collate_fn, drop_last
        self.children = [self]  # where a MindSpore dataset in batches has its source

    def __iter__(self):
        samples = iter(self.source)
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)


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
