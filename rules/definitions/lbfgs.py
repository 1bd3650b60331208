"""L-BFGS: MindSpore has none."""

from mindspore import ops
from mindspore.experimental import optim


class LBFGS(optim.Optimizer):
    """L-BFGS with torch's arguments; `step` takes a function that returns the loss and the gradients."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None):
        super().__init__(params, {"lr": lr, "max_iter": max_iter,
                                  "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                                  "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                                  "history_size": history_size, "line_search_fn": line_search_fn})
        self.state["lbfgs"] = {"n_iter": 0, "pairs": [], "scale": 1.0}

    def step(self, grad_fn):
        group, state = self.param_groups[0], self.state["lbfgs"]
        lr = float(group["lr"])
        first_loss, grad = self._evaluate(grad_fn)
        loss, evaluations = float(first_loss), 1
        if ops.abs(grad).max().item() <= group["tolerance_grad"]:
            return first_loss
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(grad, group["history_size"])
            step = min(1.0, 1.0 / ops.abs(grad).sum().item()) * lr if state["n_iter"] == 1 else lr
            last_loss = loss
            state.update(grad=grad, direction=direction, step=step)
            slope = (grad * direction).sum().asnumpy()
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] == "strong_wolfe":
                loss, grad, step, searched = strong_wolfe(self._try, grad_fn, direction, step, loss, grad, slope,
                                                          group["max_eval"] - evaluations)
                evaluations += searched
                state["step"] = step
                self._move(step, direction)
            else:
                self._move(step, direction)
                if i != group["max_iter"]:
                    loss, grad = self._evaluate(grad_fn)
                    loss = float(loss)
                    evaluations += 1
            if (evaluations >= group["max_eval"] or ops.abs(grad).max().item() <= group["tolerance_grad"]
                    or ops.abs(direction * step).max().item() <= group["tolerance_change"]
                    or abs(loss - last_loss) < group["tolerance_change"]):
                break
        return first_loss

    def _direction(self, grad, history_size):
        """The two-loop recursion over the kept pairs of changes: of the gradient, of the parameters."""
        state = self.state["lbfgs"]
        if state["n_iter"] == 1:
            return -grad
        pairs, y, s = state["pairs"], grad - state["grad"], state["direction"] * state["step"]
        ys = (y * s).sum()
        if ys.item() > 1e-10:
            if len(pairs) == history_size:
                pairs.pop(0)
            pairs.append((y, s, 1.0 / ys))
            state["scale"] = ys / (y * y).sum()
        direction, alphas = -grad, []
        for y, s, rho in reversed(pairs):
            alphas.append((s * direction).sum() * rho)
            direction = direction - alphas[-1] * y
        direction = direction * state["scale"]
        for (y, s, rho), alpha in zip(pairs, reversed(alphas)):
            direction = direction + (alpha - (y * direction).sum() * rho) * s
        return direction

    def _evaluate(self, grad_fn):
        loss, grads = grad_fn()
        return loss, ops.cat([grad.reshape(-1) for grad in grads])

    def _move(self, step, direction):
        offset = 0
        for param in self.parameters:
            ops.assign_add(param, step * direction[offset:offset + param.size].reshape(param.shape))
            offset += param.size

    def _try(self, grad_fn, step, direction):
        """The loss and the gradient after a step that is taken back."""
        before = [param.value().copy() for param in self.parameters]
        self._move(step, direction)
        loss, grad = self._evaluate(grad_fn)
        for param, value in zip(self.parameters, before):
            ops.assign(param, value)
        return float(loss), grad


def strong_wolfe(evaluate, grad_fn, direction, step, loss, grad, slope, max_evaluations, c1=1e-4, c2=0.9,
                 tolerance=1e-9):
    """A step length that meets the strong Wolfe conditions: loss and gradient there, the step, the evaluations."""
    def probe(step):
        new_loss, new_grad = evaluate(grad_fn, step, direction)
        return step, new_loss, new_grad, (new_grad * direction).sum().asnumpy()

    start = last = (0.0, loss, grad, slope)
    point, evaluations, turns, done, bracket = probe(step), 1, 0, False, None
    while turns < max_evaluations and bracket is None:
        if point[1] > loss + c1 * point[0] * slope or turns > 1 and point[1] >= last[1]:
            bracket = [last, point]
        elif abs(point[3]) <= -c2 * slope:
            bracket, done = [point], True
        elif point[3] >= 0:
            bracket = [last, point]
        else:
            bounds = (point[0] + 0.01 * (point[0] - last[0]), point[0] * 10)
            last, point = point, probe(cubic_minimum(last, point, bounds))
            evaluations, turns = evaluations + 1, turns + 1
    if bracket is None:
        bracket, done = [start, point], True
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    width, stuck = ops.abs(direction).max().item(), False
    while not done and turns < max_evaluations:
        left, right = sorted((bracket[0][0], bracket[1][0]))
        if (right - left) * width < tolerance:
            break
        step = cubic_minimum(*bracket, (left, right))
        margin = 0.1 * (right - left)
        if min(right - step, step - left) < margin:
            if stuck or step >= right or step <= left:
                step = right - margin if abs(step - right) < abs(step - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        point = probe(step)
        evaluations, turns = evaluations + 1, turns + 1
        if point[1] > loss + c1 * step * slope or point[1] >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(point[3]) <= -c2 * slope:
                done = True
            elif point[3] * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    step, loss, grad, _ = bracket[low]
    return loss, grad, step, evaluations


def cubic_minimum(one, two, bounds):
    """Where the cubic through two points with their slopes is least, kept within the bounds."""
    (x1, f1, _, g1), (x2, f2, _, g2) = sorted((one, two), key=lambda point: point[0])
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square >= 0:
        d2 = square ** 0.5
        step = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
        return float(min(max(step, bounds[0]), bounds[1]))
    return (bounds[0] + bounds[1]) / 2.0
