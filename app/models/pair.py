"""Whether two models can work together, decided before the first round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UserFacingError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def require_same_vocabulary(target: PreTrainedTokenizerBase, assistant: PreTrainedTokenizerBase) -> None:
    """Raises UserFacingError unless every token has the same id in both tokenizers.

    Compares the mappings, not their sizes: padding a vocabulary does no harm, a swapped id would.
    """
    theirs, ours = target.get_vocab(), assistant.get_vocab()
    differing = sum(1 for token in theirs.keys() | ours.keys() if theirs.get(token) != ours.get(token))
    if differing:
        raise UserFacingError(
            "These two models do not share a vocabulary.",
            f"{differing:,} of {len(theirs):,} tokens have another id in the assistant's tokenizer.",
            "Choose an assistant from the target's own family, or draft by lookup.",
        )
