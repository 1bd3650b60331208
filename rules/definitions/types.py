"""The names that torch has for tensors by their element types: 'torch.FloatTensor'."""

import mindspore as ms


def type_name(x):
    return f"torch.{tensor_types()[x.dtype]}Tensor"


def element_type(name):
    return next(dtype for dtype, known in tensor_types().items() if name.endswith(f".{known}Tensor"))


def tensor_types():
    return {
        ms.float32: "Float", ms.float64: "Double", ms.float16: "Half", ms.bfloat16: "BFloat16", ms.int64: "Long",
        ms.int32: "Int", ms.int16: "Short", ms.int8: "Char", ms.uint8: "Byte", ms.bool_: "Bool",
    }  # fmt: skip
