"""Many images in one, and images in files."""

import mindspore as ms
import numpy as np
from mindspore import ops
from PIL import Image


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """A batch of images as one image, `nrow` of them beside each other; one of a single channel gets three."""
    images = (ops.stack(tensor) if isinstance(tensor, list) else tensor).asnumpy()
    images = images.reshape((1,) * (4 - images.ndim) + images.shape)
    images = np.repeat(images, 3, 1) if images.shape[1] == 1 else images
    if normalize:
        axes = (1, 2, 3) if scale_each else None
        low, high = value_range or (images.min(axes, keepdims=True), images.max(axes, keepdims=True))
        images = ((np.clip(images, low, high) - low) / np.maximum(high - low, 1e-5)).astype(images.dtype)
    count, channels, height, width = images.shape
    if count == 1:
        return ms.Tensor(images[0])
    columns = min(nrow, count)
    rows = -(-count // columns)
    height, width = height + padding, width + padding
    grid = np.full((channels, height * rows + padding, width * columns + padding), pad_value, images.dtype)
    for place, image in enumerate(images):
        top, left = place // columns * height + padding, place % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding] = image
    return ms.Tensor(grid)


def save_image(tensor, fp, format=None, **options):
    """A grid of images, with values between 0 and 1, as a file."""
    pixels = np.clip(make_grid(tensor, **options).asnumpy() * 255 + 0.5, 0, 255).astype(np.uint8)
    Image.fromarray(pixels.transpose(1, 2, 0)).save(fp, format=format)
