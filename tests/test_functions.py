"""Custom gradients, function transforms and hooks: what the translation says, and what it refuses."""

from __future__ import annotations

import textwrap

import pytest

from torch2ms import Result, Tier, convert_source

HEAD = "import torch\nfrom torch import nn\nfrom torch.autograd import Function\n\n\n"


def convert(text: str) -> Result:
    result = convert_source(HEAD + textwrap.dedent(text).lstrip("\n"), path="program.py")
    assert not result.error
    return result


def function(
    forward: str, backward: str, inputs: str = "x", grads: str = "g", after: str = "y = N.apply(torch.ones(3))"
) -> Result:
    """An autograd.Function of these lines."""
    indented = [textwrap.indent(textwrap.dedent(part).strip(), " " * 8) for part in (forward, backward)]
    return convert(
        f"class N(Function):\n    @staticmethod\n    def forward(ctx, {inputs}):\n{indented[0]}\n\n"
        f"    @staticmethod\n    def backward(ctx, {grads}):\n{indented[1]}\n\n\n{after}\n"
    )


def bprop(result: Result) -> str:
    """The bprop of the translation, without its indentation."""
    assert not refusals(result)
    lines = result.text.split("    def bprop(", 1)[1].split("\n\n", 1)[0]
    return textwrap.dedent("    def bprop(" + lines).strip()


def construct(result: Result) -> str:
    lines = result.text.split("    def construct(", 1)[1].split("\n\n", 1)[0]
    return textwrap.dedent("    def construct(" + lines).strip()


def refusals(result: Result) -> list[str]:
    return [f.why for f in result.findings if f.tier is Tier.REFUSED]


def test_saved_input_is_an_argument_of_bprop() -> None:
    result = function("ctx.save_for_backward(x)\nreturn x * x", "x, = ctx.saved_tensors\nreturn 2 * x * g")
    assert bprop(result) == "def bprop(self, x, out, g):\n    return (2 * x * g,)"
    assert construct(result) == "def construct(self, x):\n    return x * x"
    assert "class N(nn.Cell):" in result.text
    assert "y = N()(ops.ones(3))" in result.text


def test_names_of_the_backward_win() -> None:
    result = function(
        "ctx.save_for_backward(w, x)\nreturn x * w", "a, b = ctx.saved_tensors\nreturn g * a, g * b", inputs="x, w",
        after="y = N.apply(torch.ones(3), torch.ones(3))",
    )  # fmt: skip
    assert bprop(result) == "def bprop(self, b, a, out, g):\n    return g * a, g * b"


def test_saved_output_takes_its_name() -> None:
    result = function("y = x.exp()\nctx.save_for_backward(y)\nreturn y", "y, = ctx.saved_tensors\nreturn g * y")
    assert bprop(result) == "def bprop(self, x, y, g):\n    return (g * y,)"


def test_intermediate_is_computed_again() -> None:
    result = function(
        "s = torch.sigmoid(x)  # kept\nctx.save_for_backward(s)\nreturn x * s", "s, = ctx.saved_tensors\nreturn g * s"
    )
    assert bprop(result) == "def bprop(self, x, out, g):\n    s = ops.sigmoid(x)\n    return (g * s,)"
    assert result.text.count("# kept") == 1


def test_random_intermediate_stays_in_the_cell() -> None:
    result = function(
        "mask = torch.rand_like(x) > 0.5\nctx.save_for_backward(mask)\nreturn x * mask",
        "mask, = ctx.saved_tensors\nreturn g * mask",
    )
    assert "self.mask = mask" in construct(result)
    assert "mask = self.mask" in bprop(result)


def test_what_a_cell_keeps_under_a_name_is_that_of_one_call() -> None:
    result = function(
        "mask = torch.rand_like(x) > 0.5\nctx.save_for_backward(mask)\nreturn x * mask",
        "mask, = ctx.saved_tensors\nreturn g * mask", after="f = N.apply\ny = f(torch.ones(3))",
    )  # fmt: skip
    assert not refusals(result)
    assert "f = lambda *inputs: N()(*inputs)" in result.text


def test_a_jacobian_of_a_matrix_and_a_vector_is_refused() -> None:
    text = """
        def f(w, x):
            return x @ w


        w, x = torch.randn(3), torch.randn(4, 3)
        j = torch.func.jacrev(f)(w, x)
        """
    assert refusals(convert(text)) == ["MindSpore's Jacobians fail on the product of a matrix and a vector"]
    assert not refusals(convert(text.replace("torch.randn(3)", "torch.randn(3, 2)")))


def test_context_attributes() -> None:
    result = function(
        "ctx.lo, ctx.n = lo, 3\nctx.shape = x.shape\nreturn x.clamp(lo)",
        "return g.reshape(ctx.shape) * ctx.lo * ctx.n, None", inputs="x, lo", after="y = N.apply(torch.ones(3), 0.5)",
    )  # fmt: skip
    assert (
        bprop(result)
        == "def bprop(self, x, lo, out, g):\n    shape = x.shape\n    return g.reshape(shape) * lo * 3, None"
    )
    assert "ctx" not in construct(result)


def test_needed_gradients_are_all_computed() -> None:
    result = function(
        "ctx.save_for_backward(x, b)\nreturn x + b",
        """
        x, b = ctx.saved_tensors
        grad_x = grad_b = None
        if ctx.needs_input_grad[0]:  # for x
            grad_x = g
        if b is not None and ctx.needs_input_grad[1]:
            grad_b = g.sum(0)
        return grad_x, grad_b
        """, inputs="x, b", after="y = N.apply(torch.ones(3), None)",
    )  # fmt: skip
    assert "grad_b = None\n" in bprop(result)
    assert "# for x\n    grad_x = g\n" in bprop(result)
    assert "if b is not None:" in bprop(result)


def test_several_outputs_unpack_their_gradients() -> None:
    result = function(
        "e = x.exp()\nctx.save_for_backward(e)\nreturn e, x * 2",
        "e, = ctx.saved_tensors\nreturn g * e + h * 2", grads="g, h",
        after="a, b = N.apply(torch.ones(3))",
    )  # fmt: skip
    assert (
        bprop(result)
        == "def bprop(self, x, out, grads):\n    g, h = grads\n    e = out[0]\n    return (g * e + h * 2,)"
    )


def test_setup_context() -> None:
    result = convert(
        """
        class Cube(Function):
            @staticmethod
            def forward(x, n):
                return x ** n

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, n = inputs
                ctx.save_for_backward(x)
                ctx.n = n

            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return g * ctx.n * x ** (ctx.n - 1), None


        y = Cube.apply(torch.ones(3), 3)
        """
    )
    assert bprop(result) == "def bprop(self, x, n, out, g):\n    return g * n * x ** (n - 1), None"
    assert "setup_context" not in result.text


@pytest.mark.parametrize(
    ("forward", "backward", "inputs", "why"),
    [
        ("return xs[0]", "return g", "*xs", "forward takes *args or keywords: the inputs are not known"),
        ("with torch.enable_grad():\n    y = x * 2\nreturn y", "return g", "x",
         "forward records operations itself (enable_grad)"),
        ("ctx.mark_dirty(x)\nreturn x.add_(1)", "return g", "x", "forward changes an input in place (mark_dirty)"),
        ("helper(ctx, x)\nreturn x * 2", "return g", "x", "forward passes the context on"),
        ("return x * 2", "return g * ctx.k", "x", "nothing in forward sets ctx.k"),
        ("if x is None:\n    ctx.save_for_backward(x)\nreturn x", "x, = ctx.saved_tensors\nreturn g", "x",
         "save_for_backward is called under a condition"),
        ("return x * 2", "return torch.autograd.grad(g, g)", "x", "backward takes gradients itself"),
    ],
)  # fmt: skip
def test_what_a_bprop_cannot_say_is_refused(forward: str, backward: str, inputs: str, why: str) -> None:
    result = function(forward, backward, inputs)
    assert why in refusals(result)
    assert "class N(Function):" in result.text
    assert "N.apply(" in result.text


def test_lambda_of_a_compiled_transform_gets_a_name() -> None:
    result = convert(
        """
        from torch.func import vmap

        x = torch.ones(4, 3)
        # per row
        y = vmap(lambda v: (v * v).sum())(x)
        """
    )
    assert "\n\n\ndef fn(v):\n    return (v * v).sum()\n\n\n# per row\ny = ms.vmap(fn)(x)\n" in result.text


def test_lambda_that_chooses_an_argument_is_a_position() -> None:
    result = convert(
        """
        def f(w, x):
            return torch.sin(w) * x


        w, x = torch.ones(3), torch.ones(3)
        j = torch.autograd.functional.jacobian(lambda v: f(w, v), x)
        """
    )
    assert "j = ms.jacrev(f, 1)(w, x)" in result.text


def test_value_comes_first() -> None:
    result = convert(
        """
        from torch.func import grad_and_value


        def loss(w):
            return (w * w).sum()


        grads, value = grad_and_value(loss)(torch.ones(3))
        pair = grad_and_value(loss)(torch.ones(3))
        """
    )
    assert "value, grads = ms.value_and_grad(loss)(ops.ones(3))" in result.text
    assert "pair = ms.value_and_grad(loss)(ops.ones(3))[::-1]" in result.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h = 1.0\n\n\ndef f(x):\n    return x * h\n\n\na = torch.func.vmap(f)(torch.ones(3))\nh = 2.0\n",
         "the function is compiled once and would keep the first value of h"),
        ("W = torch.ones(3, 3)\n\n\ndef f(x):\n    return (W @ x).sum()\n\n\ndef g(x):\n"
         "    return torch.func.grad(f)(x).sum()\n\n\n"
         "y = torch.func.grad(g)(torch.ones(3))\n",
         "MindSpore's second derivatives of matrix products are wrong outside compiled functions"),
        ("x = torch.ones(3)\ny = [torch.func.vmap(lambda v: v * k)(x) for k in (1, 2)]\n",
         "MindSpore reads the source of the function, and this lambda uses names of an expression"),
        ("x = torch.ones(3)\ny = torch.func.grad(torch.sin, argnums=(0,))(x)\n",
         "with one argument in a tuple MindSpore returns the gradient alone"),
    ],
)  # fmt: skip
def test_transforms_that_would_differ_are_refused(text: str, why: str) -> None:
    assert why in refusals(convert(text))


def test_hooks_go_into_the_forward() -> None:
    result = convert(
        """
        net = nn.Linear(3, 2)
        seen = []
        h = net(torch.ones(4, 3))
        loss = (h ** 2).sum()
        h.register_hook(lambda g: seen.append(g.norm().item()))
        loss.backward()
        """
    )
    body = result.text.split("def forward_fn", 1)[1].split("return loss", 1)[0]
    assert "h.register_hook(" in body
    assert "ms.value_and_grad(forward_fn, None, net.trainable_params()" in result.text


def test_module_hooks() -> None:
    result = convert(
        """
        net = nn.Linear(3, 2)
        net.register_full_backward_hook(lambda m, gi, go: None)
        net.register_forward_hook(lambda m, i, o: None)
        net.register_backward_hook(lambda m, gi, go: None)
        """
    )
    assert "net.register_backward_hook(lambda m, gi, go: None)\nnet.register_forward_hook(" in result.text
    assert refusals(result) == ["torch gives this hook the gradients of the module's last operation only"]


def test_module_of_a_wrapper() -> None:
    result = convert("net = nn.DataParallel(nn.Linear(3, 2))\nprint(net.module.weight)\n")
    assert "print(net.weight.value())" in result.text
