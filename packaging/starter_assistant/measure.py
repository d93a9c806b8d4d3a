"""How well the assistant drafts for the target: greedy, on fixed held-out prompts, with a real draft loop.

For every prefix of the target's own greedy reply the assistant drafts `LONGEST` tokens with its cache, just
as in a round that starts there. Greedy drafts of fewer tokens are prefixes of those, and greedy verification
accepts a candidate precisely when it equals the target's reply, so the rounds at every draft length follow.

Use `--questions` (Spec-Bench's questions.jsonl) for reporting only, never to choose anything. To choose,
measure on WORK/held_out.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from assistant import join
from conversation import REPLY
from corpus import Corpus
from target import load_target
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedTokenizerBase

DRAFT_LENGTHS = (1, 2, 3, 5)
LONGEST = max(DRAFT_LENGTHS)
NEW_TOKENS = 128
CHAT = {
    "writing",
    "roleplay",
    "reasoning",
    "math",
    "coding",
    "extraction",
    "stem",
    "humanities",
}  # MT-bench's


@dataclass
class Case:
    """A prompt and the target's greedy reply to it, as token ids."""

    category: str
    prompt: list[int]
    reply: list[int]


def spread(questions: list[dict], count: int) -> list[dict]:
    """The first question of every category in the file's order, then the second, and so on up to `count`."""
    by_category: dict[str, list[dict]] = defaultdict(list)
    for question in questions:
        by_category[question["category"]].append(question)
    deepest = max(map(len, by_category.values()))
    turns = [group[i] for i in range(deepest) for group in by_category.values() if i < len(group)]
    return turns[:count]


def question_cases(
    path: Path, count: int, target: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase
) -> list[Case]:
    """The first turns of a fixed selection of questions, answered greedily by the target."""
    questions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    cases = []
    for question in spread(questions, count):
        messages = [{"role": "user", "content": question["turns"][0]}]
        inputs = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        output = target.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)[0].tolist()
        size = inputs["input_ids"].shape[1]
        cases.append(Case(question["category"], output[:size], output[size:]))
    return cases


def own_cases(folder: Path, count: int) -> list[Case]:
    """Greedy replies of the target to user turns of its own that no training saw."""
    corpus = Corpus(folder, ("tokens", "roles", "top_ids"))
    cases = []
    for conversation in corpus.conversations:
        first = (conversation["roles"] == REPLY).nonzero()[:NEW_TOKENS, 0]
        if len(first) < 16 or first[-1] - first[0] != len(first) - 1:
            continue
        tokens = conversation["tokens"].tolist()
        reply = tokens[first[0] : first[-1] + 1]
        if reply == conversation["top_ids"][first - 1, 0].tolist():
            cases.append(Case("own", tokens[: first[0]], reply))
    return cases[:: max(1, len(cases) // count)][:count]


@torch.inference_mode()
def drafts(assistant: LlamaForCausalLM, case: Case) -> list[list[int]]:
    """The assistant's greedy draft before every token of the reply: [len(reply)][LONGEST]."""
    cache = DynamicCache(config=assistant.config)
    fresh, all_drafts = list(case.prompt), []
    for token in case.reply:
        draft = []
        for _ in range(LONGEST):
            logits = assistant(input_ids=torch.tensor([fresh]), cache=cache, logits_to_keep=1).logits
            fresh = [int(logits[0, -1].argmax())]
            draft += fresh
        all_drafts.append(draft)
        cache.crop(-(LONGEST - 1))
        fresh = [token]
    return all_drafts


def rounds(reply: list[int], all_drafts: list[list[int]], length: int) -> tuple[int, list[int], list[int]]:
    """Number of rounds, and accepted and judged candidates per draft position, for one reply.

    Each round emits its accepted candidates and one token of the target's own. The first token of the reply
    comes with the prompt's prefill and belongs to no round; the last draft is capped by what is left.
    """
    count, place = 0, 1
    accepted, judged = [0] * length, [0] * length
    while place < len(reply):
        candidates = all_drafts[place][: min(length, len(reply) - place - 1)]
        matches = 0
        while matches < len(candidates) and candidates[matches] == reply[place + matches]:
            matches += 1
        for offset in range(min(matches + 1, len(candidates))):
            judged[offset] += 1
            accepted[offset] += offset < matches
        place += matches + 1
        count += 1
    return count, accepted, judged


def summarise(cases: list[Case], every_draft: list[list[list[int]]]) -> dict:
    """Agreement over all reply tokens, and the rounds at every draft length, of some cases together."""
    agreed = sum(
        draft[0] == token
        for case, drafted in zip(cases, every_draft, strict=True)
        for token, draft in zip(case.reply, drafted, strict=True)
    )
    tokens = sum(len(case.reply) for case in cases)
    summary: dict = {
        "prompts": len(cases),
        "reply_tokens": tokens,
        "agreement": agreed / tokens,
        "draft_length": {},
    }
    for length in DRAFT_LENGTHS:
        parts = [
            rounds(case.reply, drafted, length) for case, drafted in zip(cases, every_draft, strict=True)
        ]
        accepted, judged = (
            [sum(column) for column in zip(*rows, strict=True)] for rows in list(zip(*parts, strict=True))[1:]
        )
        summary["draft_length"][length] = {
            "tokens_per_round": (tokens - len(cases)) / sum(part[0] for part in parts),
            "acceptance_rate": sum(accepted) / sum(judged),
            "acceptance_by_position": [a / max(j, 1) for a, j in zip(accepted, judged, strict=True)],
        }
    return summary


def groups(cases: list[Case]) -> dict[str, list[int]]:
    """Which cases belong to which line of the table."""
    named: dict[str, list[int]] = {"total": list(range(len(cases)))}
    for index, case in enumerate(cases):
        if case.category in CHAT:
            named.setdefault("chat", []).append(index)
    for index, case in enumerate(cases):
        if case.category not in CHAT and case.category != "own":
            named.setdefault(case.category, []).append(index)
    return named


def table(results: dict[str, dict]) -> str:
    """The results as text, one line per group."""
    lines = [f"{'':16}{'tokens':>7}{'agree':>7}   tokens per round / acceptance rate at draft length"]
    lines.append(" " * 33 + "".join(f"{length:>14}" for length in DRAFT_LENGTHS))
    for name, result in results.items():
        cells = "".join(
            f"{entry['tokens_per_round']:>7.2f} /{entry['acceptance_rate']:>5.2f}"
            for entry in result["draft_length"].values()
        )
        lines.append(f"{name:16}{result['reply_tokens']:>7}{result['agreement']:>7.3f}   {cells}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; optionally write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="work folder with target/ and held_out/")
    parser.add_argument(
        "--assistant", type=Path, required=True, help="folder of exported layers and config.json"
    )
    parser.add_argument(
        "--questions", type=Path, help="Spec-Bench questions.jsonl; without it: WORK/held_out"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--prompts", type=int, default=24, help="how many; the published figures use 24")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    dtype = getattr(torch, arguments.dtype)
    target, tokenizer = load_target(arguments.work, dtype)
    if arguments.questions:
        cases = question_cases(arguments.questions, arguments.prompts, target, tokenizer)
    else:
        cases = own_cases(arguments.work / "held_out", arguments.prompts)
    assistant = join(target, arguments.assistant, dtype)
    every_draft = [drafts(assistant, case) for case in cases]
    results = {
        name: summarise([cases[i] for i in members], [every_draft[i] for i in members])
        for name, members in groups(cases).items()
    }
    print(table(results))
    if arguments.json:
        arguments.json.write_text(json.dumps({"dtype": arguments.dtype, "groups": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
