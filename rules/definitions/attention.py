"""Masks of attention, attention with weights of one's own, and stacks of its layers."""

import copy

import mindspore as ms
from mindspore import nn, ops


def additive_mask(mask=None):
    """A boolean mask as what is added to the scores; MindSpore adds ones where it meets a mask of numbers."""
    if mask is None or mask.dtype != ms.bool_:
        return mask
    return ops.zeros(mask.shape, ms.float32).masked_fill(mask, float("-inf"))


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn,
    dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, need_weights=True,
    attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, v_proj_weight=None,
    static_k=None, static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """Attention over sequences of (length, batch, width), or of (length, width), with weights of torch's shapes."""
    if query.ndim == 2:  # without a batch
        padding = None if key_padding_mask is None else key_padding_mask.expand_dims(0)
        out, weights = multi_head_attention_forward(
            *(x.expand_dims(1) for x in (query, key, value)), embed_dim_to_check, num_heads, in_proj_weight,
            in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training, padding,
            need_weights, attn_mask, use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight,
            static_k, static_v, average_attn_weights,
        )  # fmt: skip
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    length, batch, width = query.shape
    size, rows = width // num_heads, batch * num_heads
    own = (q_proj_weight, k_proj_weight, v_proj_weight)
    projections = own if use_separate_proj_weight else in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (ops.dense(x, w, b) for x, w, b in zip((query, key, value), projections, biases))
    added = 0
    if bias_k is not None and bias_v is not None:
        k, v = (ops.cat((x, b.tile((1, batch, 1)))) for x, b in ((k, bias_k), (v, bias_v)))
        added += 1
    q, k, v = (x.reshape(x.shape[0], rows, size).swapaxes(0, 1) for x in (q, k, v))
    k, v = k if static_k is None else static_k, v if static_v is None else static_v
    if add_zero_attn:
        k, v = (ops.cat((x, ops.zeros((rows, 1, size), dtype=x.dtype)), axis=1) for x in (k, v))
        added += 1
    scores = ops.bmm(q / size**0.5, k.swapaxes(1, 2))
    if attn_mask is not None:
        scores = scores + ops.pad(additive_mask(attn_mask), (0, added))
    if key_padding_mask is not None:
        padding = ops.pad(additive_mask(key_padding_mask), (0, added))
        scores = scores + padding.reshape(batch, 1, 1, -1).tile((1, num_heads, 1, 1)).reshape(rows, 1, -1)
    weights = ops.softmax(scores, -1)
    if training and dropout_p > 0:
        weights = ops.dropout(weights, dropout_p)
    out = ops.bmm(weights, v).swapaxes(0, 1).reshape(length, batch, width)
    out = ops.dense(out, out_proj_weight, out_proj_bias)
    if not need_weights:
        return out, None
    weights = weights.reshape(batch, num_heads, length, k.shape[1])
    return out, weights.mean(1) if average_attn_weights else weights


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


class MultiheadAttention(nn.MultiheadAttention):
    """One that classes are derived from: MindSpore's own takes no call with other arguments than its."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False,
                 kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__(embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first,
                         dtype=dtype or ms.float32)

    def __call__(self, *args, **kwargs):
        return nn.Cell.__call__(self, *args, **kwargs)

    def construct(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                  average_attn_weights=True, is_causal=False):
        self.k_is_v, self.q_is_k = key is value, query is key
        if key_padding_mask is not None and attn_mask is not None:
            key_padding_mask, attn_mask = additive_mask(key_padding_mask), additive_mask(attn_mask)
        found = super().construct(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights)
        return found if need_weights else (found[0], None)
