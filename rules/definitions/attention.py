"""Masks of attention, and stacks of its layers."""

import copy

import mindspore as ms
from mindspore import nn, ops


def additive_mask(mask=None):
    """A boolean mask as what is added to the scores; MindSpore adds ones where it meets a mask of numbers."""
    if mask is None or mask.dtype != ms.bool_:
        return mask
    return ops.zeros(mask.shape, ms.float32).masked_fill(mask, float("-inf"))


class EncoderStack(nn.Cell):
    """Copies of a layer one after the other, which begin with its weights; MindSpore's own begins with others."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = nn.CellList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def construct(self, src, src_mask=None, src_key_padding_mask=None):
        for layer in self.layers:
            src = layer(src, src_mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class DecoderStack(nn.Cell):
    """Copies of a layer one after the other, which begin with its weights; MindSpore's own begins with others."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = nn.CellList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm

    def construct(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
    ):
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
            )
        return tgt if self.norm is None else self.norm(tgt)
