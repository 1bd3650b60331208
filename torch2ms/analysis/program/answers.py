"""What is worked out once for a project or a module is kept with it, and let go of with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class _Keeper(Protocol):
    answers: dict[Callable[..., Any], Any]


About = TypeVar("About", bound=_Keeper)
Answer = TypeVar("Answer")


def once(question: Callable[[About], Answer]) -> Callable[[About], Answer]:
    """The question with its answers kept; a cache of its own would hold the trees of the last project."""

    @wraps(question)
    def asked(about: About) -> Answer:
        answers = about.answers
        if question not in answers:
            answers[question] = question(about)
        answer: Answer = answers[question]
        return answer

    return asked
