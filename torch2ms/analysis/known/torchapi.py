"""What calls on torch return, for the flow of gradients and kinds. Translation rules live in rules/."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.values import NO_DEPS, Value

# results that carry no gradient
CUT = {
    "argmax", "argmin", "argsort", "argwhere", "eq", "ne", "gt", "lt", "ge", "le", "greater", "less", "zeros", "ones",
    "rand", "randn", "randint", "randperm", "empty", "full", "arange", "linspace", "eye", "zeros_like", "ones_like",
    "rand_like", "randn_like", "full_like", "empty_like", "isnan", "isinf", "isfinite", "isclose", "allclose", "bool",
    "long", "int", "short", "byte", "nonzero", "unique", "bincount", "one_hot", "multinomial", "bernoulli", "detach",
    "logical_and", "logical_or", "logical_not", "equal", "from_numpy", "normal", "floor_divide", "searchsorted",
    "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "count_nonzero", "detach_", "tril_indices",
    "triu_indices", "manual_seed", "as_tensor", "tensor", "Tensor", "FloatTensor", "LongTensor", "histc", "is_tensor",
}  # fmt: skip
HOST = {"item": "float", "tolist": "list", "numpy": "numpy", "dim": "int", "ndimension": "int", "numel": "int",
        "nelement": "int", "element_size": "int", "is_contiguous": "bool", "data_ptr": "int", "get_device": "int",
        "backward": "none", "register_hook": "object", "storage": "unknown", "type": "unknown",
        "is_floating_point": "bool", "__len__": "int"}  # fmt: skip
SHAPED = {"expand_as", "view_as", "reshape_as", "type_as", "to"}  # ask nothing of the other tensor but its form
ROWS = ("torch.nn.Conv1d", "torch.nn.ConvTranspose1d")  # layers that MindSpore computes as images of one row
ANSWERS = {"allclose", "equal", "can_cast"}
TENSOR_ATTRS = {"shape": "size", "dtype": "dtype", "device": "device", "ndim": "int", "requires_grad": "bool",
                "is_cuda": "bool", "is_leaf": "bool", "grad_fn": "unknown", "names": "unknown",
                "layout": "unknown"}  # fmt: skip
# methods that only tensors of torch have: seen on an unknown receiver they make it a likely tensor
TENSOR_METHODS = {
    "unsqueeze", "detach", "cuda", "contiguous", "requires_grad_", "masked_fill", "masked_fill_", "unsqueeze_",
    "permute", "view", "view_as", "expand", "expand_as", "backward", "numel", "retain_grad", "scatter_", "scatter",
    "gather", "index_select", "masked_select", "type_as", "bmm", "mm", "matmul", "addmm", "addcmul_", "addcdiv_",
    "zero_", "fill_", "copy_", "add_", "sub_", "mul_", "div_", "clamp_", "clamp", "clamp_min", "clamp_max",
    "softmax", "log_softmax",
    "sigmoid", "relu", "tanh", "pow", "exp", "sqrt", "abs", "log", "neg", "long", "float", "half", "double", "normal_",
    "uniform_", "new_zeros", "new_ones", "new_tensor", "narrow", "chunk", "unbind", "unfold", "topk", "logsumexp",
    "triu", "tril", "ge", "le", "gt", "lt", "eq", "ne", "squeeze_", "sign", "logical_not", "index_fill_", "index_add_",
    "index_copy_", "data_ptr", "register_hook", "detach_", "is_contiguous", "repeat_interleave", "erf", "rsqrt", "t",
    "lerp_", "pow_", "sqrt_", "rsqrt_", "abs_", "neg_", "exp_", "log_", "clamp_min_", "clamp_max_", "masked_scatter_",
    "flip", "roll", "renorm", "fill_diagonal_", "kthvalue", "logcumsumexp", "index_add", "index_copy", "index_fill",
    "index_put", "index_put_", "scatter_add", "scatter_reduce", "masked_scatter", "diag", "diag_embed", "diagflat",
    "amax", "amin", "aminmax", "baddbmm", "addbmm", "addmv", "addcmul", "addcdiv", "mv", "lerp", "movedim", "logaddexp",
    "unique_consecutive", "take_along_dim", "logit", "erfinv", "addr", "rot90", "nansum", "nanmean",
    "scatter_add_", "bernoulli_", "exponential_", "relu_", "sigmoid_", "tanh_", "floor_", "round_", "reciprocal_",
    "new_full", "new_empty", "new_empty_strided", "scatter_reduce_", "index_reduce", "index_reduce_", "random_",
    "log_normal_", "geometric_", "cauchy_", "nan_to_num", "nan_to_num_", "addmm_", "addbmm_", "baddbmm_", "ceil_",
    "clip_", "cos_", "sin_", "cumsum_", "cumprod_", "erfinv_", "expm1", "expm1_", "log1p", "log1p_", "erfc", "fmod_",
    "remainder_", "floor_divide_", "true_divide_", "multiply_", "divide_", "subtract_", "negative_", "square_", "sign_",
    "transpose_", "t_", "tril_", "triu_", "trunc_", "xlogy_", "eq_", "ne_", "gt_", "ge_", "lt_", "le_", "logical_and",
    "logical_or", "logical_xor", "logical_not_", "logical_and_", "logical_or_", "reshape_as", "select_scatter",
    "slice_scatter", "diagonal_scatter", "sum_to_size", "tensor_split", "logdet", "cummax", "cummin", "reciprocal",
    "broadcast_to", "to_dense", "to_sparse", "to_sparse_csr", "coalesce", "_nnz", "_indices", "_values", "sparse_dim",
    "crow_indices", "col_indices",
    "absolute_", "acos_", "acosh_", "addmv_", "addr_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan2_",
    "arctan_", "arctanh_", "as_strided_", "asin_", "asinh_", "atan2_", "atan_", "atanh_", "bitwise_and_",
    "bitwise_left_shift_", "bitwise_not_", "bitwise_or_", "bitwise_right_shift_", "bitwise_xor_", "conj_physical_",
    "copysign_", "cosh_", "deg2rad_", "digamma_", "erf_", "erfc_", "exp2_", "fix_", "float_power_", "frac_", "gcd_",
    "greater_", "greater_equal_", "heaviside_", "hypot_", "i0_", "igamma_", "igammac_", "lcm_", "ldexp_", "less_",
    "less_equal_", "lgamma_", "log10_", "log2_", "logical_xor_", "logit_", "mvlgamma_", "nextafter_", "not_equal_",
    "polygamma_", "put_", "rad2deg_", "renorm_", "resize_", "resize_as_", "sgn_", "sinc_", "sinh_", "swapaxes_",
    "swapdims_", "tan_", "exp2", "vdot", "narrow_copy", "as_strided", "cfloat", "cdouble",
    "element_size", "nanmedian", "bitwise_not", "kron",
    "apply_", "map_", "map2_", "as_strided_scatter", "chalf", "conj_physical", "corrcoef", "dim_order",
    "is_coalesced", "is_conj", "is_neg", "is_nonzero", "is_same_size", "is_set_to",
    "matrix_exp", "nonzero_static", "pinverse", "polygamma", "resize_as", "resolve_conj", "resolve_neg",
    "share_memory_", "sparse_mask", "split_with_sizes", "to_sparse_coo", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes",
}  # fmt: skip
MODULES_TOO = {"cuda", "float", "half", "double", "requires_grad_"}  # of these, what modules have as well
WITH_PLACES = {"sort", "topk", "mode", "kthvalue", "cummax", "cummin"}  # values and where they stood
PERHAPS_PLACES = {"max", "min", "median", "nanmedian"}  # ... where they are given a dimension
ALWAYS_TUPLES = {
    "aminmax": 2,
    "slogdet": 2,
    "qr": 2,
    "svd": 3,
    "eigh": 2,
    "eig": 2,
    "std_mean": 2,
    "var_mean": 2,
    "cholesky_ex": 2,
    "inv_ex": 2,
    "solve_ex": 2,
    "lstsq": 4,
    "histogram": 2,
    "triangular_solve": 2,
    "frexp": 2,
    "geqrf": 2,
}
TRIANGULAR = {
    "lu": 3,
    "lu_factor": 2,
    "lu_factor_ex": 3,
    "lu_unpack": 3,
    "ldl_factor": 2,
    "ldl_factor_ex": 3,
}  # whose fields have names of their own
LISTS = {"chunk", "split", "unbind", "meshgrid", "tensor_split", "hsplit", "vsplit", "dsplit", "broadcast_tensors",
         "gradient"}  # fmt: skip
FIELDS = {  # of the tuples with names, by their places
    name: place
    for place, names in enumerate((
        "values Q sign U eigenvalues min solution mantissa hist", "indices R logabsdet S eigenvectors max residuals "
        "exponent bin_edges", "Vh V rank",
    ))
    for name in names.split()
}  # fmt: skip
LAYERS_OF = {  # layers that layers are made of, by the names of their attributes
    "torch.nn.Transformer": {"encoder": "torch.nn.TransformerEncoder", "decoder": "torch.nn.TransformerDecoder"},
}
NO_TENSORS = {  # what functions of torch's give that is no tensor
    "torch.promote_types": "dtype", "torch.result_type": "dtype", "torch.get_default_dtype": "dtype",
    "torch.numel": "int", "torch.initial_seed": "int", "torch.get_num_threads": "int", "torch.broadcast_shapes": "size",
    "torch.cuda.device_count": "int", "torch.cuda.current_device": "int", "torch.typename": "str",
}  # fmt: skip
RECURRENT = {"LSTM", "GRU", "RNN"}
PACKED = "packed sequence"  # the name of a tuple that only recurrent layers take: a padded batch, and the lengths in it
NOT_LEARNED = {"Parameter", "ParameterList", "Buffer", "UninitializedParameter"}


def result(name: str, deps: frozenset[str], nargs: int) -> Value:
    """The value of calling the torch function `name` (fully qualified, not a class) on values that carry `deps`.

    `nargs` counts what may be a dimension among its arguments.
    """
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.utils.rnn."):
        return _ragged(last, deps)
    if name.startswith("torch.nn.utils."):
        made = "clip_grad" in last or last == "parameters_to_vector"
        return Value("tensor", deps=deps if last == "parameters_to_vector" else NO_DEPS) if made else Value("unknown")
    if last in HOST and name.startswith("torch.Tensor."):
        return Value(HOST[last])
    if last.startswith("is_") or last in ANSWERS:
        return Value("bool")
    if name in NO_TENSORS:
        return Value(NO_TENSORS[name])
    if last in CUT:
        deps = NO_DEPS
    if last in WITH_PLACES or last in PERHAPS_PLACES and nargs:
        return Value("tuple", name="return_types", items=(Value("tensor", deps=deps), Value("tensor")), deps=deps)
    if last in TRIANGULAR:
        return Value("tuple", name="lu_types", items=(Value("tensor", deps=deps),) * TRIANGULAR[last], deps=deps)
    if last == "histogramdd":
        return Value("tuple", name="return_types", items=(Value("tensor"), Value("list", name="of tensor")))
    if last in ALWAYS_TUPLES:
        items = (Value("tensor", deps=deps),) * ALWAYS_TUPLES[last]
        return Value("tuple", name="return_types", items=items, deps=deps)
    if last in LISTS:
        return Value("list", name="of tensor", deps=deps)
    if last in ("finfo", "iinfo"):
        return Value("object", name=name)
    return Value("tensor", deps=deps)


def _ragged(last: str, deps: frozenset[str]) -> Value:
    """What the functions for sequences of different lengths return."""
    padded = Value("tensor", deps=deps)
    if last in ("pack_padded_sequence", "pack_sequence"):
        return Value("tuple", name=PACKED, items=(padded, Value("tensor")), deps=deps)
    if last == "pad_packed_sequence":
        return Value("tuple", items=(padded, Value("tensor")), deps=deps)
    return padded if last == "pad_sequence" else Value("list", name="of tensor", deps=deps)


def transformed(name: str, node: cst.Call, args: list[Value], deps: frozenset[str]) -> Value | None:
    """The function that a transform of torch.func makes, with what it will return; None for other names."""
    home, _, last = name.rpartition(".")
    one = Value("tensor", deps=deps)
    inner = args[0].each if args and args[0].name.startswith("torch.func:") else args[0] if args else None
    if home == "torch.autograd.functional":
        return one if last in ("jacobian", "hessian") else Value("tuple", items=(one, one), deps=deps)
    if home not in ("torch.func", "functorch") and name != "torch.vmap":
        return None
    if last == "jvp":
        return Value("tuple", items=(one, one), deps=deps)
    if last == "vjp":
        pull = Value("function", name="torch.func:pull", items=(Value("list", name="of tensor", deps=deps),), deps=deps)
        return Value("tuple", items=(one, pull), deps=deps)
    if last == "vmap":
        if args and args[0].name.startswith("torch.func:"):
            return args[0]
        return Value("function", name="torch.func:vmap", items=(one,), deps=deps, each=inner)
    if last not in ("grad", "grad_and_value", "jacrev", "jacfwd", "hessian"):
        return None
    positions = [
        a.value
        for i, a in enumerate(node.args)
        if (a.keyword.value if a.keyword is not None else "argnums" if i == 1 else "") == "argnums"
    ]
    many = len(positions[0].elements) if positions and isinstance(positions[0], (cst.Tuple, cst.List)) else 0
    result = Value("tuple", items=(one,) * many, deps=deps) if many else one
    if last == "grad_and_value":
        result = Value("tuple", items=(result, one), deps=deps)
    return Value("function", name=f"torch.func:{last}", items=(result,), deps=deps, each=inner)
