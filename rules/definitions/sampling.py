"""Pictures read at the places of a grid."""

import mindspore as ms
from mindspore import ops


def nearest_sample(x, grid, padding_mode="zeros", align_corners=False):
    """The pixels that are nearest to the grid's places; halfway between two the even one, where MindSpore rounds up."""
    height, width = x.shape[2:]
    columns, rows = (
        nearest_pixels(grid[..., i], size, padding_mode, align_corners) for i, size in enumerate((width, height))
    )
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    places = rows.clip(0, height - 1) * width + columns.clip(0, width - 1)
    places = places.reshape(x.shape[0], 1, -1).broadcast_to((*x.shape[:2], places[0].size))
    pixels = ops.gather_elements(x.reshape(*x.shape[:2], -1), 2, places).reshape(*x.shape[:2], *grid.shape[1:3])
    return ops.where(inside.expand_dims(1), pixels, ops.zeros_like(pixels))


def nearest_pixels(places, size, padding_mode, align_corners):
    """The whole numbers of pixels for places between -1 and 1."""
    places = (places + 1) / 2 * (size - 1) if align_corners else ((places + 1) * size - 1) / 2
    if padding_mode == "border":
        places = places.clip(0, size - 1)
    elif padding_mode == "reflection":
        low, span = (0, size - 1) if align_corners else (-0.5, size)
        offset = ops.abs(places - low)
        turns = ops.floor(offset / span) if span else ops.zeros_like(offset)
        rest = offset - turns * span
        places = (ops.where(turns % 2 == 0, rest, span - rest) + low).clip(0, size - 1)
    return ops.round(places).astype(ms.int64)
