"""What the parameters and the values of distributions must be: classes without parameters stand for themselves."""

import mindspore as ms
import numpy as np
from mindspore import ops


class Standing(type):
    """Classes that stand for themselves count as their own instances."""

    def __instancecheck__(cls, value):
        return super().__instancecheck__(value) or isinstance(value, type) and issubclass(value, cls)


class Constraint(metaclass=Standing):
    event_dim = 0
    is_discrete = False


class Real(Constraint):
    @staticmethod
    def check(value):
        return value == value


class RealVector(Constraint):
    event_dim = 1

    @staticmethod
    def check(value):
        return (value == value).all(-1)


class BooleanValue(Constraint):
    is_discrete = True

    @staticmethod
    def check(value):
        return ops.logical_or(value == 0, value == 1)


class OneHot(Constraint):
    event_dim = 1
    is_discrete = True

    @staticmethod
    def check(value):
        return ops.logical_and(BooleanValue.check(value).all(-1), value.sum(-1) == 1)


class Interval(Constraint):
    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return ops.logical_and(value >= self.lower_bound, value <= self.upper_bound)


class HalfOpenInterval(Interval):
    def check(self, value):
        return ops.logical_and(value >= self.lower_bound, value < self.upper_bound)


class IntegerInterval(Interval):
    is_discrete = True

    def check(self, value):
        return ops.logical_and(value % 1 == 0, super().check(value))


class GreaterThan(Constraint):
    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return value > self.lower_bound


class GreaterThanEq(GreaterThan):
    def check(self, value):
        return value >= self.lower_bound


class IntegersFrom(GreaterThan):
    is_discrete = True

    def check(self, value):
        return ops.logical_and(value % 1 == 0, value >= self.lower_bound)


class LessThan(Constraint):
    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return value < self.upper_bound


class CountsUpTo(LessThan):
    event_dim = 1
    is_discrete = True

    def check(self, value):
        return ops.logical_and((value >= 0).all(-1), value.sum(-1) <= self.upper_bound)


class Simplex(Constraint):
    event_dim = 1

    @staticmethod
    def check(value):
        return ops.logical_and((value >= 0).all(-1), ops.abs(value.sum(-1) - 1) < 1e-6)


class LowerTriangular(Constraint):
    event_dim = 2

    @staticmethod
    def check(value):
        return (value.tril() == value).all(-1).all(-1)


class LowerCholesky(Constraint):
    event_dim = 2

    @staticmethod
    def check(value):
        return ops.logical_and(LowerTriangular.check(value), (ops.diagonal(value, 0, -2, -1) > 0).all(-1))


class CorrCholesky(Constraint):
    event_dim = 2

    @staticmethod
    def check(value):
        close = np.finfo(value.asnumpy().dtype).eps * value.shape[-1] * 10
        unit = (ops.abs(ops.sqrt(ops.square(value).sum(-1)) - 1) <= close).all(-1)
        return ops.logical_and(LowerCholesky.check(value), unit)


class SquareMatrix(Constraint):
    event_dim = 2

    @staticmethod
    def check(value):
        return ms.Tensor(np.full(value.shape[:-2], value.shape[-2] == value.shape[-1]))


class SymmetricMatrix(Constraint):
    event_dim = 2

    @staticmethod
    def check(value):
        if value.shape[-2] != value.shape[-1]:
            return SquareMatrix.check(value)
        other = value.swapaxes(-1, -2)
        return (ops.abs(value - other) <= 1e-6 + 1e-5 * ops.abs(other)).all(-1).all(-1)


class PositiveDefinite(Constraint):
    event_dim = 2
    strict = True

    @classmethod
    def check(cls, value):
        symmetric = SymmetricMatrix.check(value)
        if not symmetric.all():
            return symmetric
        lowest = ms.Tensor(np.linalg.eigvalsh(value.asnumpy()).min(-1))
        return lowest > 0 if cls.strict else lowest >= 0


class PositiveSemidefinite(PositiveDefinite):
    strict = False


class IndependentConstraint(Constraint):
    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete

    def check(self, value):
        passed = self.base_constraint.check(value)
        for _ in range(self.reinterpreted_batch_ndims):
            passed = passed.all(-1)
        return passed


class CatConstraint(Constraint):
    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.event_dim = max(part.event_dim for part in self.cseq)
        self.is_discrete = any(part.is_discrete for part in self.cseq)

    def check(self, value):
        parts = ops.split(value, self.lengths, self.dim)
        return ops.cat([part.check(piece) for part, piece in zip(self.cseq, parts)], self.dim)


class StackConstraint(CatConstraint):
    def check(self, value):
        return ops.stack([part.check(piece) for part, piece in zip(self.cseq, value.unbind(self.dim))], self.dim)


def uniform_support(distribution):
    return Interval(distribution.low, distribution.high)
