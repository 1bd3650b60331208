"""The import statement behind every name that translated code may use."""

from __future__ import annotations

from torch2ms.packs import packs

IMPORTS: dict[str, str] = {
    "ms": "import mindspore as ms",
    "np": "import numpy as np",
    "copy": "import copy",
    "contextlib": "import contextlib",
    "math": "import math",
    "multiprocessing": "import multiprocessing",
    "itertools": "import itertools",
    "gzip": "import gzip",
    "os": "import os",
    "pickle": "import pickle",
    "Image": "from PIL import Image",
    "ImageEnhance": "from PIL import ImageEnhance",
    "ImageOps": "from PIL import ImageOps",
    "nn": "from mindspore import nn",
    "ops": "from mindspore import ops",
    "mint": "from mindspore import mint",
    "mnp": "import mindspore.numpy as mnp",
    "optim": "from mindspore.experimental import optim",
    "lr_scheduler": "from mindspore.experimental.optim import lr_scheduler",
    "partial": "from functools import partial",
    "cache": "from functools import cache",
    "dlpack": "from mindspore.utils import dlpack",
    "vision": "from mindspore.dataset import vision",
    "transforms": "from mindspore.dataset import transforms",
    "ds": "import mindspore.dataset as ds",
    "special": "from scipy import special",
    "linalg": "from scipy import linalg",
    "signal": "from scipy import signal",
    "typing": "import typing",
}
for _name in (
    "NumpySlicesDataset",
    "GeneratorDataset",
    "SequentialSampler",
    "RandomSampler",
    "SubsetSampler",
    "DistributedSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "MnistDataset",
    "Cifar10Dataset",
    "Cifar100Dataset",
    "FashionMnistDataset",
    "ImageFolderDataset",
):
    IMPORTS[_name] = f"from mindspore.dataset import {_name}"
for _name in (
    "initializer",
    "Normal",
    "TruncatedNormal",
    "Uniform",
    "XavierUniform",
    "XavierNormal",
    "HeUniform",
    "HeNormal",
    "Constant",
    "Zero",
    "One",
    "Orthogonal",
    "Sparse",
    "Dirac",
    "Identity",
):
    IMPORTS[_name] = f"from mindspore.common.initializer import {_name}"
for _pack in packs():
    IMPORTS.update(_pack.imports)
