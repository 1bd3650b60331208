"""Element types as programs hold them: names of tensors' types ('torch.FloatTensor'), and types that may be None."""

import mindspore as ms
from mindspore import ops


def type_name(x):
    return f"torch.{tensor_types()[x.dtype]}Tensor"


def element_type(name):
    return next(dtype for dtype, known in tensor_types().items() if name.endswith(f".{known}Tensor"))


def tensor_types():
    return {
        ms.float32: "Float", ms.float64: "Double", ms.float16: "Half", ms.bfloat16: "BFloat16", ms.int64: "Long",
        ms.int32: "Int", ms.int16: "Short", ms.int8: "Char", ms.uint8: "Byte", ms.bool_: "Bool",
    }  # fmt: skip


def as_type(x, dtype=None):
    """A type that is None leaves the tensor as it is; whole numbers have no gradient."""
    made = x if dtype is None else x.astype(dtype)
    return ops.stop_gradient(made) if str(dtype).startswith(("Int", "UInt", "Bool")) else made
