"""Pictures read at the places of a grid."""

import mindspore as ms
from mindspore import ops


def nearest_sample(x, grid, padding_mode="zeros", align_corners=False):
    """The pixels that are nearest to the grid's places; halfway between two the even one, where MindSpore rounds up."""
    columns, rows = (
        ops.round(kept_places(pixel_places(grid[..., i], size, align_corners), size, padding_mode, align_corners))
        for i, size in enumerate(x.shape[:1:-1])
    )
    return pixels_at(x, columns, rows)


def bicubic_sample(x, grid, padding_mode="zeros", align_corners=False):
    """The sixteen pixels around each of the grid's places, weighed by cubic convolution."""
    columns, rows = (pixel_places(grid[..., i], size, align_corners) for i, size in enumerate(x.shape[:1:-1]))
    left, top = ops.floor(columns), ops.floor(rows)
    across, down = cubic_weights(columns - left), cubic_weights(rows - top)
    around = ([kept_places(first + i - 1, size, padding_mode, align_corners) for i in range(4)]
              for first, size in ((left, x.shape[3]), (top, x.shape[2])))  # fmt: skip
    near_columns, near_rows = around
    return sum(
        pixels_at(x, near_columns[j], near_rows[i]) * (down[i] * across[j]).expand_dims(1)
        for i in range(4)
        for j in range(4)
    )


def cubic_weights(part, a=-0.75):
    """What the pixels at -1, 0, 1 and 2 count for a place at `part`."""
    near = [((a + 2) * far - (a + 3)) * far * far + 1 for far in (part, 1 - part)]
    first, last = (((a * far - 5 * a) * far + 8 * a) * far - 4 * a for far in (part + 1, 2 - part))
    return [first, *near, last]


def pixels_at(x, columns, rows):
    """The pixels at whole numbers, zero where there are none."""
    height, width = x.shape[2:]
    columns, rows = columns.astype(ms.int64), rows.astype(ms.int64)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    places = rows.clip(0, height - 1) * width + columns.clip(0, width - 1)
    places = places.reshape(x.shape[0], 1, -1).broadcast_to((*x.shape[:2], places[0].size))
    pixels = ops.gather_elements(x.reshape(*x.shape[:2], -1), 2, places).reshape(*x.shape[:2], *columns.shape[1:])
    return ops.where(inside.expand_dims(1), pixels, ops.zeros_like(pixels))


def pixel_places(places, size, align_corners):
    """Places between -1 and 1 in pixels."""
    return (places + 1) / 2 * (size - 1) if align_corners else ((places + 1) * size - 1) / 2


def kept_places(places, size, padding_mode, align_corners):
    """Places beyond the ends as the padding has it."""
    if padding_mode == "border":
        return places.clip(0, size - 1)
    if padding_mode != "reflection":
        return places
    low, span = (0, size - 1) if align_corners else (-0.5, size)
    offset = ops.abs(places - low)
    turns = ops.floor(offset / span) if span else ops.zeros_like(offset)
    rest = offset - turns * span
    return (ops.where(turns % 2 == 0, rest, span - rest) + low).clip(0, size - 1)
