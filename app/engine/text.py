"""Chat messages in, text out: the template, and a detokeniser that never shows half a character."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app.errors import UserFacingError
from app.records import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
MAX_HELD = 16  # a model that writes broken bytes on end shows them after so many tokens


class ChatText:
    """A tokenizer seen from the chat: messages to token ids, token ids to text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._special_ids = frozenset(tokenizer.all_special_ids)
        self._names: dict[int, str] = {}

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The prompt as token ids, ready for the model's reply. Raises UserFacingError when the template fails.

        A model without a chat template is a text completer: it gets the messages as they are.
        """
        if not self.tokenizer.chat_template:
            return self._encode_plain("\n".join(message.content for message in messages))
        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            encoded: Any = self.tokenizer.apply_chat_template(
                turns, add_generation_prompt=True, return_dict=True
            )
        except Exception as error:
            raise UserFacingError(
                "The model's chat template refused this conversation.", str(error), "Start a new chat."
            ) from error
        return list(encoded["input_ids"])

    def _encode_plain(self, text: str) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` without special tokens; incomplete characters decode to U+FFFD."""
        return str(
            self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def is_special(self, token_id: int) -> bool:
        return token_id in self._special_ids

    def name(self, token_id: int) -> str:
        """The token by itself, special ones by their name: for candidates, which need not be part of the reply."""
        if token_id not in self._names:
            self._names[token_id] = self._make_name(token_id)
        return self._names[token_id]

    def _make_name(self, token_id: int) -> str:
        if self.is_special(token_id):
            return str(self.tokenizer.convert_ids_to_tokens(token_id))
        return self.decode([token_id])


class Detokeniser:
    """Turns a growing token sequence into text pieces whose concatenation is the decoded reply.

    A tokenizer may give a token another text at the start of a sequence than behind others, and a character
    may be spread over several tokens. So each piece is the difference of two decodings that share the tokens
    of the last piece as their context, and it stays empty until the character is complete. The context starts
    with a whole character: some decoders give up a whole run of bytes that starts or ends inside one.
    """

    def __init__(self, text: ChatText) -> None:
        self._text = text
        self._ids: list[int] = []  # a few tokens of context, then those not shown yet
        self._num_context = 0
        self._shown = ""  # the decoding of the context alone

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty for special tokens and while a character is incomplete."""
        if self._text.is_special(token_id):
            return ""
        self._ids.append(token_id)
        decoded = self._text.decode(self._ids)
        piece = decoded[len(self._shown) :]
        held = len(self._ids) - self._num_context
        if not piece or (decoded.endswith(INCOMPLETE) and held < MAX_HELD):
            return ""
        self._ids = self._ids[self._num_context :]
        self._num_context = len(self._ids)
        self._shown = self._text.decode(self._ids)
        return piece

    def fork(self) -> Detokeniser:
        """An independent copy, to try candidates on."""
        other = Detokeniser(self._text)
        other._ids, other._num_context, other._shown = list(self._ids), self._num_context, self._shown
        return other


class StopStrings:
    """Ends a text before the first place where one of `strings` stands in it.

    Text that may be the beginning of one is held back until it is known to be none.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(each for each in strings if each)
        self._held = ""
        self.found = False

    def push(self, piece: str) -> str:
        """What may be shown of the text held back so far and `piece`; sets `found` when a string is complete."""
        text = self._held + piece
        places = [place for each in self._strings if (place := text.find(each)) >= 0]
        if places:
            self.found, self._held = True, ""
            return text[: min(places)]
        shown = len(text) - max((_overlap(text, each) for each in self._strings), default=0)
        self._held = text[shown:]
        return text[:shown]

    def flush(self) -> str:
        """What is still held back, when no more text comes."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, string: str) -> int:
    """The length of the longest end of `text` that begins `string`, without being all of it."""
    longest = min(len(text), len(string) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(string[:size])), 0)
