"""Boxes around things in images, as rows of corners: their areas, how far they overlap, and which of them to keep."""

import math

import mindspore as ms
import numpy as np
from mindspore import nn, ops


def box_area(boxes):
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def shared_area(boxes1, boxes2):
    """What each of some boxes shares with each of others, and what both cover."""
    low = ops.maximum(boxes1[..., None, :2], boxes2[..., None, :, :2])
    high = ops.minimum(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
    sides = (high - low).clamp(min=0)
    inter = sides[..., 0] * sides[..., 1]
    return inter, box_area(boxes1)[..., None] + box_area(boxes2)[..., None, :] - inter


def box_iou(boxes1, boxes2):
    inter, union = shared_area(boxes1, boxes2)
    return inter / union


def generalized_box_iou(boxes1, boxes2):
    inter, union = shared_area(boxes1, boxes2)
    low = ops.minimum(boxes1[..., None, :2], boxes2[..., None, :, :2])
    high = ops.maximum(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
    sides = (high - low).clamp(min=0)
    around = sides[..., 0] * sides[..., 1]
    return inter / union - (around - union) / around


def distance_box_iou(boxes1, boxes2, eps=1e-7):
    first, second = boxes1[..., None, :], boxes2[..., None, :, :]
    sides = (ops.maximum(first[..., 2:], second[..., 2:]) - ops.minimum(first[..., :2], second[..., :2])).clamp(min=0)
    apart = (first[..., :2] + first[..., 2:] - second[..., :2] - second[..., 2:]) / 2
    return box_iou(boxes1, boxes2) - ops.square(apart).sum(-1) / (ops.square(sides).sum(-1) + eps)


def complete_box_iou(boxes1, boxes2, eps=1e-7):
    first, second = boxes1[..., None, 2:] - boxes1[..., None, :2], boxes2[..., None, :, 2:] - boxes2[..., None, :, :2]
    angle = ops.atan(first[..., 0] / first[..., 1]) - ops.atan(second[..., 0] / second[..., 1])
    shape = 4 / math.pi**2 * ops.square(angle)
    weight = ops.stop_gradient(shape / (1 - box_iou(boxes1, boxes2) + shape + eps))
    return distance_box_iou(boxes1, boxes2, eps) - weight * shape


def box_convert(boxes, in_fmt, out_fmt):
    if in_fmt == out_fmt:
        return boxes.copy()
    a, b, c, d = ops.unbind(boxes, -1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    if out_fmt == "xywh":
        a, b, c, d = a, b, c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return ops.stack((a, b, c, d), axis=-1)


def clip_boxes_to_image(boxes, size):
    height, width = size
    x, y = boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)
    return ops.stack((x, y), axis=-1).reshape(boxes.shape)


def remove_small_boxes(boxes, min_size):
    large = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return ops.nonzero(large)[:, 0]


def masks_to_boxes(masks):
    found = [np.nonzero(mask) for mask in masks.asnumpy()]
    corners = [(x.min(), y.min(), x.max(), y.max()) for y, x in found]
    return ms.Tensor(np.array(corners, np.float32).reshape(-1, 4))


def batched_nms(boxes, scores, idxs, iou_threshold):
    """The places of the boxes that no better one of their kind covers, the best first."""
    overlap = box_iou(boxes, boxes).asnumpy() if len(boxes) else np.zeros((0, 0))
    overlap = np.where(idxs.asnumpy()[:, None] == idxs.asnumpy(), overlap, 0)
    kept = []
    for place in np.argsort(-scores.asnumpy(), kind="stable"):
        if not (overlap[place, kept] > iou_threshold).any():
            kept.append(int(place))
    return ms.Tensor(np.array(kept, np.int64))


def nms(boxes, scores, iou_threshold):
    return batched_nms(boxes, scores, ops.zeros_like(scores), iou_threshold)


def reduced_loss(loss, reduction):
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    p = ops.sigmoid(inputs)
    entropy = ops.maximum(inputs, ops.zeros_like(inputs)) - inputs * targets + ops.log1p(ops.exp(-ops.abs(inputs)))
    loss = entropy * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return reduced_loss(loss, reduction)


def paired_overlap(boxes1, boxes2, eps):
    """How far each box overlaps the one in its row, the area that both cover and the sides of what is around them."""
    sides = ops.minimum(boxes1[..., 2:], boxes2[..., 2:]) - ops.maximum(boxes1[..., :2], boxes2[..., :2])
    area = sides[..., 0] * sides[..., 1]
    inter = ops.where((sides[..., 0] > 0) & (sides[..., 1] > 0), area, ops.zeros_like(area))
    union = box_area(boxes1) + box_area(boxes2) - inter
    around = ops.maximum(boxes1[..., 2:], boxes2[..., 2:]) - ops.minimum(boxes1[..., :2], boxes2[..., :2])
    return inter / (union + eps), union, around


def generalized_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    iou, union, around = paired_overlap(boxes1, boxes2, eps)
    area = around[..., 0] * around[..., 1]
    return reduced_loss(1 - (iou - (area - union) / (area + eps)), reduction)


def distance_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    iou, _, around = paired_overlap(boxes1, boxes2, eps)
    apart = (boxes1[..., :2] + boxes1[..., 2:] - boxes2[..., :2] - boxes2[..., 2:]) / 2
    return reduced_loss(1 - iou + ops.square(apart).sum(-1) / (ops.square(around).sum(-1) + eps), reduction)


def complete_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    iou = paired_overlap(boxes1, boxes2, eps)[0]
    first, second = boxes1[..., 2:] - boxes1[..., :2], boxes2[..., 2:] - boxes2[..., :2]
    angle = ops.atan(second[..., 0] / second[..., 1]) - ops.atan(first[..., 0] / first[..., 1])
    shape = 4 / math.pi**2 * ops.square(angle)
    weight = ops.stop_gradient(shape / (1 - iou + shape + eps))
    return reduced_loss(distance_box_iou_loss(boxes1, boxes2, eps=eps) + weight * shape, reduction)


class FrozenBatchNorm2d(nn.Cell):
    """Batch normalisation whose statistics, weights and biases stay as they are."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = ms.Parameter(ops.ones(num_features), requires_grad=False)
        self.bias = ms.Parameter(ops.zeros(num_features), requires_grad=False)
        self.running_mean = ms.Parameter(ops.zeros(num_features), requires_grad=False)
        self.running_var = ms.Parameter(ops.ones(num_features), requires_grad=False)

    def construct(self, x):
        scale = self.weight.reshape(1, -1, 1, 1) * ops.rsqrt(self.running_var.reshape(1, -1, 1, 1) + self.eps)
        return x * scale + (self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale)


class Permute(nn.Cell):
    def __init__(self, dims):
        super().__init__()
        self.dims = tuple(dims)

    def construct(self, x):
        return ops.permute(x, self.dims)


def roi_align(input, boxes, output_size, spatial_scale=1.0, sampling_ratio=-1, aligned=False):
    """Means of bilinear samples in the parts of each box: products with the weights of its rows and of its columns."""
    rows, columns = (output_size, output_size) if isinstance(output_size, int) else output_size
    if isinstance(boxes, (list, tuple)):
        places = np.concatenate([np.full((len(part), 1), i) for i, part in enumerate(boxes)])
        boxes = np.concatenate([places, np.concatenate([part.asnumpy() for part in boxes])], 1)
    else:
        boxes = boxes.asnumpy()
    corners = boxes[:, 1:].astype(np.float32) * np.float32(spatial_scale) - np.float32(0.5 if aligned else 0.0)

    def weights(start, end, count, length):
        size = end - start if aligned else max(end - start, np.float32(1.0))
        each = sampling_ratio if sampling_ratio > 0 else math.ceil(size / count)
        if each <= 0:
            return ops.zeros((count, length), dtype=input.dtype)
        at = start + (np.arange(count * each) + 0.5) * size / (count * each)
        inside = (at >= -1) & (at <= length)
        apart = np.abs(np.clip(at, 0, length - 1)[:, None] - np.arange(length))
        found = np.maximum(1 - apart, 0) * inside[:, None]
        return ms.Tensor(found.reshape(count, each, length).mean(1), input.dtype)

    found = []
    for place, (left, top, right, bottom) in zip(boxes[:, 0], corners):
        down = weights(top, bottom, rows, input.shape[2])
        across = weights(left, right, columns, input.shape[3])
        found.append(ops.matmul(ops.matmul(down, input[int(place)]), across.T))
    return ops.stack(found) if found else ops.zeros((0, input.shape[1], rows, columns), dtype=input.dtype)


class RoIAlign(nn.Cell):
    def __init__(self, output_size, spatial_scale, sampling_ratio, aligned=False):
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def construct(self, input, rois):
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)
