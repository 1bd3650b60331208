"""Images: transforms one after another, and the data sets of torchvision, read where torchvision left them."""

import gzip
import os
import pickle

import mindspore as ms
import numpy as np
from PIL import Image


class Compose:
    """Transforms one after another; MindSpore's own gives a tuple where it is called on an image."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, image):
        for step in self.steps:
            image = step(image)
        return image


class PixelArray:
    """The pixels of an image as an array of channels and rows, as they are."""

    def __call__(self, image):
        pixels = np.asarray(image)
        return (pixels if pixels.ndim == 3 else pixels[:, :, None]).transpose(2, 0, 1)


class ArrayAs:
    """An array of pixels as another type: bytes reach to 255, floats to 1."""

    def __init__(self, dtype):
        self.dtype = np.dtype(ms.dtype_to_nptype(dtype))

    def __call__(self, pixels):
        if pixels.dtype == np.uint8 and self.dtype.kind == "f":
            return pixels.astype(self.dtype) / 255
        if pixels.dtype.kind == "f" and self.dtype == np.uint8:
            return (pixels * (255 + 1 - 1e-3)).astype(np.uint8)
        return pixels.astype(self.dtype)


class ImageDataset:
    """Images and their labels by index, each transformed as it is asked for."""

    def __init__(self, root, train=True, transform=None, target_transform=None):
        self.root, self.train = os.fspath(root), train
        self.transform, self.target_transform = transform, target_transform
        self.pixels, self.labels = self.load()

    @property
    def data(self):
        return self.pixels

    @property
    def targets(self):
        return self.labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image, target = self.image(index), int(self.labels[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def image(self, index):
        return Image.fromarray(self.pixels[index])


class MNIST(ImageDataset):
    classes = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
        "9 - nine",
    ]  # fmt: skip

    def load(self):
        part = "train" if self.train else "t10k"
        images, labels = self.numbers(f"{part}-images-idx3-ubyte"), self.numbers(f"{part}-labels-idx1-ubyte")
        return images, labels.astype(np.int64)

    @property
    def data(self):
        return ms.Tensor(self.pixels)

    @property
    def targets(self):
        return ms.Tensor(self.labels)

    def numbers(self, name):
        path = os.path.join(self.root, type(self).__name__, "raw", name)
        plain = os.path.exists(path)
        with open(path, "rb") if plain else gzip.open(path + ".gz") as stream:
            content = stream.read()
        shape = np.frombuffer(content, ">i4", content[3], 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


class FashionMNIST(MNIST):
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class CIFAR10(ImageDataset):
    folder, files = "cifar-10-batches-py", [f"data_batch_{number}" for number in range(1, 6)]
    test, key, names = "test_batch", "labels", ("batches.meta", "label_names")

    def load(self):
        parts = [self.unpickled(name) for name in (self.files if self.train else [self.test])]
        data = np.concatenate([part["data"] for part in parts]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.classes = self.unpickled(self.names[0])[self.names[1]]
        return data, [label for part in parts for label in part[self.key]]

    def unpickled(self, name):
        with open(os.path.join(self.root, self.folder, name), "rb") as stream:
            return pickle.load(stream, encoding="latin1")


class CIFAR100(CIFAR10):
    folder, files = "cifar-100-python", ["train"]
    test, key, names = "test", "fine_labels", ("meta", "fine_label_names")


class ImageFolder(ImageDataset):
    suffixes = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

    def load(self):
        self.classes = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = self.imgs = [
            (os.path.join(folder, file), number)
            for name, number in self.class_to_idx.items()
            for folder, _, files in sorted(os.walk(os.path.join(self.root, name), followlinks=True))
            for file in sorted(files)
            if file.lower().endswith(self.suffixes)
        ]
        return self.samples, [number for _, number in self.samples]

    def image(self, index):
        with open(self.samples[index][0], "rb") as stream:
            return Image.open(stream).convert("RGB")
