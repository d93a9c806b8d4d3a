"""One conversation while it is being written: what to feed next, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

FORCED, USER, REPLY = 0, 1, 2  # who chose a token: the template, the target as user, the target as assistant
IM_START, IM_END = 1, 2


@dataclass
class Limits:
    """Lengths in tokens."""

    user: int = 96
    reply: int = 256
    total: int = 640


@dataclass
class Conversation:
    """Tokens so far, who chose each, and the queue of forced ones.

    `temperature` belongs to the reply (0 is greedy); user turns are always sampled.
    """

    tokens: list[int]
    queue: list[int]
    reply_header: list[int]
    temperature: float
    follow_up: list[int] | None
    limits: Limits
    roles: list[int] = field(init=False)
    turn: int = USER
    turn_length: int = 0
    finished: bool = False

    def __post_init__(self) -> None:
        self.roles = [FORCED] * len(self.tokens)

    def sampling_temperature(self) -> float:
        """Temperature for the next free token."""
        return 0.9 if self.turn == USER else self.temperature

    def push(self, proposal: int) -> None:
        """Take the target's proposal for the next position, unless the template has a say."""
        if self.queue:
            self._append(self.queue.pop(0), FORCED)
            return
        self._append(proposal, self.turn)
        self.turn_length += 1
        limit = self.limits.user if self.turn == USER else self.limits.reply
        if proposal == IM_END:
            self._end_turn()
        elif self.turn == USER and self.turn_length >= limit:
            self.queue = [IM_END]
            self._end_turn()
        elif self.turn == REPLY and (self.turn_length >= limit or self._looping()):
            self.finished = True

    def _append(self, token: int, role: int) -> None:
        self.tokens.append(token)
        self.roles.append(role)
        if len(self.tokens) >= self.limits.total:
            self.finished = True

    def _end_turn(self) -> None:
        if self.turn == REPLY and not self.follow_up:
            self.finished = True
        elif self.turn == REPLY:
            self.queue, self.follow_up, self.turn = list(self.follow_up), None, USER
        else:
            self.queue, self.turn = self.queue + list(self.reply_header), REPLY
        self.turn_length = 0

    def _looping(self) -> bool:
        """Whether the reply has just said the same 3 to 40 tokens three times; looked at every 16 tokens."""
        if self.turn_length % 16 or self.turn_length < 48:
            return False
        tail = np.asarray(self.tokens[-120:])[::-1]
        size = len(tail)
        return any((tail[: 2 * p] == tail[p : 3 * p]).all() for p in range(3, 41) if 3 * p <= size)
