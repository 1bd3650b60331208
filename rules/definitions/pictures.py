"""Changes of one image, which is a tensor of channels and rows, or an image of PIL."""

import mindspore as ms
import numpy as np
from mindspore import ops
from PIL import Image, ImageEnhance, ImageOps


def as_tensor(image):
    """The pixels of an image as a tensor of channels and rows, bytes between 0 and 1."""
    pixels = np.array(image)
    pixels = (pixels if pixels.ndim == 3 else pixels[:, :, None]).transpose(2, 0, 1)
    if pixels.dtype == np.uint8:
        pixels = pixels.astype(np.float32) / 255
    return ms.Tensor(np.ascontiguousarray(pixels.astype(np.float32) if pixels.dtype == bool else pixels))


def pixel_tensor(image):
    """The pixels of an image as a tensor of channels and rows, as they are."""
    pixels = np.array(image)
    pixels = (pixels if pixels.ndim == 3 else pixels[:, :, None]).transpose(2, 0, 1)
    return ms.Tensor(np.ascontiguousarray(pixels))


def image_size(image):
    """Width and height."""
    return [image.shape[-1], image.shape[-2]] if isinstance(image, ms.Tensor) else list(image.size)


def mirrored(image):
    return ops.flip(image, (-1,)) if isinstance(image, ms.Tensor) else ImageOps.mirror(image)


def upside_down(image):
    return ops.flip(image, (-2,)) if isinstance(image, ms.Tensor) else ImageOps.flip(image)


def cropped(image, top, left, height, width):
    """A part of an image; where it reaches over the edges it is black."""
    bottom, right = top + height, left + width
    if not isinstance(image, ms.Tensor):
        return image.crop((left, top, right, bottom))
    rows, columns = image.shape[-2:]
    part = image[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    over = (
        max(min(right, 0) - left, 0), max(right - max(columns, left), 0),
        max(min(bottom, 0) - top, 0), max(bottom - max(rows, top), 0),
    )  # fmt: skip
    return ops.pad(part, over) if any(over) else part


def center_cropped(image, size):
    size = [size] if isinstance(size, int) else list(size)
    height, width = size if len(size) == 2 else size * 2
    columns, rows = image_size(image)
    more_columns, more_rows = max(width - columns, 0), max(height - rows, 0)
    if more_columns or more_rows:
        left, top = more_columns // 2, more_rows // 2
        image = cropped(image, -top, -left, rows + more_rows, columns + more_columns)
        columns, rows = columns + more_columns, rows + more_rows
    return cropped(image, round((rows - height) / 2), round((columns - width) / 2), height, width)


def framed(image, padding, fill=0, padding_mode="constant"):
    """An image with a frame: one number for all sides, two for left and top, or four."""
    padding = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = (padding * 4)[:4]
    if not isinstance(image, ms.Tensor):
        return ImageOps.expand(image, (left, top, right, bottom), fill)
    mode = {"edge": "replicate"}.get(padding_mode, padding_mode)
    if mode == "constant":
        return ops.pad(image, (left, right, top, bottom), value=fill)
    return ops.pad(image[None], (left, right, top, bottom), mode=mode)[0]


def normalised(image, mean, std):
    mean, std = ms.Tensor(mean, image.dtype), ms.Tensor(std, image.dtype)
    return (image - mean.reshape(-1, 1, 1)) / std.reshape(-1, 1, 1)


def blended(image, other, share):
    """A mixture of two images, within the bounds of their type."""
    mixed = image.astype(ms.float32) * share + other * (1 - share)
    return mixed.clamp(0, 1.0 if image.is_floating_point() else 255).astype(image.dtype)


def greyed(image, channels=1):
    if not isinstance(image, ms.Tensor):
        return image.convert("L") if channels == 1 else Image.merge("RGB", [image.convert("L")] * 3)
    red, green, blue = (image[..., n, :, :].astype(ms.float32) for n in range(3))
    grey = (0.2989 * red + 0.587 * green + 0.114 * blue).astype(image.dtype).expand_dims(-3)
    return grey if channels == 1 else ops.cat([grey] * 3, axis=-3)


def brightened(image, factor):
    if isinstance(image, ms.Tensor):
        return blended(image, ops.zeros_like(image).astype(ms.float32), factor)
    return ImageEnhance.Brightness(image).enhance(factor)


def contrasted(image, factor):
    if not isinstance(image, ms.Tensor):
        return ImageEnhance.Contrast(image).enhance(factor)
    grey = greyed(image) if image.shape[-3] == 3 else image
    return blended(image, grey.astype(ms.float32).mean((-3, -2, -1), keep_dims=True), factor)


def saturated(image, factor):
    if not isinstance(image, ms.Tensor):
        return ImageEnhance.Color(image).enhance(factor)
    return image if image.shape[-3] == 1 else blended(image, greyed(image).astype(ms.float32), factor)


def inverted(image):
    if not isinstance(image, ms.Tensor):
        return ImageOps.invert(image)
    return 1 - image if image.is_floating_point() else (255 - image.astype(ms.int32)).astype(image.dtype)


def erased(image, i, j, h, w, v):
    image = image.copy()
    image[..., i : i + h, j : j + w] = v
    return image


def five_crops(image, size):
    """The four corners and the middle."""
    height, width = (size, size) if isinstance(size, int) else (list(size) * 2)[:2]
    columns, rows = image_size(image)
    corners = [(0, 0), (0, columns - width), (rows - height, 0), (rows - height, columns - width)]
    parts = [cropped(image, top, left, height, width) for top, left in corners]
    return (*parts, center_cropped(image, (height, width)))


def ten_crops(image, size, vertical_flip=False):
    """Five crops of an image, and five of what a mirror shows of it."""
    return five_crops(image, size) + five_crops(upside_down(image) if vertical_flip else mirrored(image), size)


def as_picture(image, mode=None):
    """An image of PIL: of a tensor of channels and rows, or of an array of rows and columns."""
    pixels = image
    if isinstance(image, ms.Tensor):
        pixels = (image * 255 if image.is_floating_point() else image).asnumpy()
        pixels = pixels.astype(np.uint8) if image.is_floating_point() else pixels
        pixels = pixels.transpose(1, 2, 0) if pixels.ndim == 3 else pixels
    pixels = pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(pixels), mode)


def filter_of(interpolation):
    return Image.BILINEAR if interpolation is None else getattr(Image, interpolation.name)


def resized_image(image, size, interpolation=None):
    """An image of PIL with another height and width, or with another shorter side."""
    size = [size] if isinstance(size, int) else list(size)
    width, height = image.size
    if len(size) == 1:
        short, long = sorted((width, height))
        other = int(size[0] * long / short)
        size = (other, size[0]) if width <= height else (size[0], other)
    return image.resize((size[1], size[0]), filter_of(interpolation))


def rotated(image, angle, interpolation=None, expand=False, center=None, fill=0):
    """An image of PIL turned against the clock."""
    nearest = Image.NEAREST if interpolation is None else filter_of(interpolation)
    fill = (fill,) * len(image.getbands()) if isinstance(fill, (int, float)) and len(image.getbands()) > 1 else fill
    return image.rotate(angle, nearest, expand, center, fillcolor=fill)


def gamma_adjusted(image, gamma, gain=1):
    if isinstance(image, ms.Tensor):
        return (gain * image**gamma).clamp(0, 1)
    table = [int((255 + 1 - 1e-3) * gain * (value / 255) ** gamma) for value in range(256)]
    return image.point(table * len(image.getbands()))


def hue_turned(image, hue_factor):
    """An image of PIL whose hues are turned by a share of the circle."""
    hue, saturation, value = image.convert("HSV").split()
    hue = Image.fromarray((np.array(hue).astype(np.int32) + int(hue_factor * 255)).astype(np.uint8), "L")
    return Image.merge("HSV", (hue, saturation, value)).convert(image.mode)


def solarized(image, threshold):
    if not isinstance(image, ms.Tensor):
        return ImageOps.solarize(image, threshold)
    return ops.where(image >= threshold, inverted(image), image)


def posterized(image, bits):
    if not isinstance(image, ms.Tensor):
        return ImageOps.posterize(image, bits)
    step = 2 ** (8 - bits)
    return (image.astype(ms.int32) // step * step).astype(image.dtype)


def image_as(image, dtype=ms.float32):
    """A tensor of pixels as another type: bytes reach to 255, floats to 1."""
    floating = dtype in (ms.float16, ms.float32, ms.float64)
    if image.dtype == ms.uint8 and floating:
        return image.astype(dtype) / 255
    if image.is_floating_point() and dtype == ms.uint8:
        return (image * (255 + 1 - 1e-3)).astype(ms.int32).astype(dtype)
    return image.astype(dtype)
