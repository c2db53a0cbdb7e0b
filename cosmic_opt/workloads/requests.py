"""What is asked of a server of a language model: prompts to read, answers to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cosmic_opt.errors import SpecError, Where

TOKENS = 1000
"""A rate is scored as the time in which so many output tokens are given, by all replicas or by one NPU."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What is asked of the server.

    Attributes:
        prompt: Tokens of a prompt; `output` tokens of its answer, the first of which prefill gives.
    """

    prompt: int
    output: int

    def __post_init__(self) -> None:
        for name in ("prompt", "output"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}", where=Where(key=name), hint="at least one token")

    @property
    def mean_context(self) -> float:
        """Tokens of context in the middle of the answer."""
        return self.prompt + self.output / 2


QUESTION_ANSWERING = Requests(prompt=1000, output=200)
CHAT = Requests(prompt=3000, output=1000)
"""COSMIC's two inference jobs: decode steps at contexts of 1,100 and 3,500 tokens."""
MIXES: Mapping[str, Requests] = {"question_answering": QUESTION_ANSWERING, "chat": CHAT}
"""Requests that have a name (arXiv 2505.15020, section 5)."""
