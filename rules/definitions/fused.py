"""Layers of fixed statistics put into the layer in front of them."""

import copy

import mindspore as ms
from mindspore import ops


def fuse_conv_bn_weights(weight, bias, mean, var, eps, gamma=None, beta=None, transpose=False):
    bias = ops.zeros_like(mean) if bias is None else bias
    gamma = ops.ones_like(mean) if gamma is None else gamma
    beta = ops.zeros_like(mean) if beta is None else beta
    scale = gamma * ops.rsqrt(var + eps)
    shape = (1, -1) if transpose else (-1, 1)
    weight = weight * scale.reshape(*shape, *(1,) * (weight.ndim - 2))
    return ops.stop_gradient(weight), ops.stop_gradient((bias - mean) * scale + beta)  # new parameters in torch


def fused_with_norm(cell, norm, transpose=False):
    """A copy of the layer that gives what both give."""
    fused = copy.deepcopy(cell)
    bias = cell.bias if cell.has_bias else None
    statistics = norm.moving_mean, norm.moving_variance, norm.eps, norm.gamma, norm.beta
    weight, bias = fuse_conv_bn_weights(cell.weight, bias, *statistics, transpose)
    fused.weight = ms.Parameter(weight, name=cell.weight.name)
    fused.has_bias, fused.bias = True, ms.Parameter(bias, name=f"{cell.weight.name}.bias")
    return fused
