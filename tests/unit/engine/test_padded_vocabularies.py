"""One tokenizer, two paddings (P2): a pair runs greedy and sampled, whichever model is the wider one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from tests.helpers import tiny
from tests.helpers.replies import candidates, count, emitted, plain, reply
from tests.helpers.scripted import ScriptedModel, last_two_tokens, scripted_pair

PROMPT = "The ships count the lighthouse, and the ships"
SETTINGS = ({}, {"rule": "speculative", "temperature": 1.0}, {"rule": "sample-match", "temperature": 0.3})


@pytest.mark.parametrize(("target_size", "assistant_size"), [(320, 352), (352, 320)])
@pytest.mark.parametrize("settings", SETTINGS)
def test_replies_with_either_model_wider(target_size: int, assistant_size: int, settings: dict) -> None:
    pair = tiny.pair(
        tiny.model("llama", vocab_size=target_size), tiny.model("llama", seed=1, vocab_size=assistant_size)
    )
    finished = reply(pair, PROMPT, 24, draft_length=3, **settings)
    assert len(emitted(finished)) == 24 or finished[-1].finish_reason == "eos"
    assert count(finished, "num_judged") > 0
    if settings.get("rule") != "speculative":
        assert emitted(finished) == plain(
            pair, PROMPT, 24, **{k: v for k, v in settings.items() if k != "rule"}
        )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_id_that_the_target_lacks_is_never_drafted(temperature: float) -> None:
    """The wider assistant likes its padding best."""
    wide = last_two_tokens(seed=1, vocabulary=9)

    def assistant(tokens: Sequence[int]) -> torch.Tensor:
        logits = wide(tokens).clone()
        logits[7:] = 30.0
        return logits

    pair = scripted_pair(ScriptedModel(last_two_tokens(seed=2, vocabulary=6), 6), ScriptedModel(assistant, 9))
    finished = reply(pair, "1 2 3", 30, draft_length=3, temperature=temperature)
    assert max(max(candidates(each), default=0) for each in finished) < 6
    assert len(emitted(finished)) == 30
