"""Failures of the machine, not of the program, in the words of a person's remedy."""

from __future__ import annotations

import torch

from app.errors import UserFacingError


def out_of_memory(error: BaseException) -> bool:
    """The CPU's allocator raises a plain RuntimeError and can only be told by its words."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "not enough memory" in str(error)


def explain(error: Exception) -> UserFacingError | None:
    """What a person can do about `error`; None when it is a bug of ours."""
    if isinstance(error, UserFacingError):
        return error
    if out_of_memory(error):
        return UserFacingError(
            "There is not enough memory to go on.",
            "What was written so far is kept.",
            "Close other programs, or start a new chat: a shorter conversation needs less.",
        )
    return None
