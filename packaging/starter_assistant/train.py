"""Distils the target into the assistant; may be killed and started again, or paused, at any moment.

The learning rate warms up, stays, and falls linearly to zero over the last `--decay-steps` steps. It depends
on steps alone, never on the clock, so a paused process loses nothing. The plateau is flat so that a run may
be resumed with other `--steps`: one can end it at any time and still gets the whole decay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from assistant import Assistant, assistant_config, export, layers_of
from conversation import REPLY, USER
from corpus import Corpus
from loss import distillation_loss
from target import load_target

ROLE_WEIGHTS = {USER: 0.1, REPLY: 1.0}  # by who chose the token that is to be predicted


class Trainer:
    """Model, optimisers and the place in the run."""

    def __init__(self, model: Assistant, arguments: argparse.Namespace) -> None:
        self.model, self.arguments, self.step = model, arguments, 0
        matrices = [p for p in model.parameters() if p.ndim == 2]
        vectors = [p for p in model.parameters() if p.ndim == 1]
        rate = arguments.learning_rate
        self.optimizers = [
            torch.optim.Muon(matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(vectors, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def train_on(self, batch: dict[str, torch.Tensor]) -> tuple[float, float]:
        """One optimiser step; returns loss and agreement."""
        loss, agreement = batch_loss(self.model, batch, self.arguments.first_choice)
        loss.backward()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.arguments.learning_rate * self._rate()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return loss.item(), agreement.item()

    def save(self, path: Path) -> None:
        """Everything needed to go on, written aside and renamed."""
        state = {
            "weights": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "step": self.step,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.rename(path)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint."""
        state = torch.load(path)
        self.model.load_state_dict(state["weights"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step = state["step"]

    def _rate(self) -> float:
        """Share of the full learning rate: trapezoid over steps."""
        arguments = self.arguments
        rising = (self.step + 1) / arguments.warmup_steps
        falling = (arguments.steps - self.step) / max(arguments.decay_steps, 1)
        return max(0.0, min(1.0, rising, falling))


def batch_loss(
    model: Assistant, batch: dict[str, torch.Tensor], first_choice: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and agreement of a padded batch (see `Corpus.epoch`) over the positions that count."""
    weights = position_weights(batch["roles"])
    chosen = weights > 0
    hidden = model(batch["tokens"])[:, :-1][chosen]
    return distillation_loss(
        hidden,
        model.embeddings,
        batch["top_ids"][:, :-1][chosen].long(),
        batch["top_logits"][:, :-1][chosen],
        weights[chosen],
        first_choice,
    )


def position_weights(roles: torch.Tensor) -> torch.Tensor:
    """Roles [rows, length] -> weight of each prediction [rows, length - 1]: that of the token predicted."""
    successors = roles[:, 1:]
    weights = torch.zeros(successors.shape)
    for role, weight in ROLE_WEIGHTS.items():
        weights[successors == role] = weight
    return weights


def endless_batches(corpus: Corpus, batch_tokens: int, seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """Epoch after epoch; shards that have appeared meanwhile join at the next one."""
    while True:
        yield from corpus.epoch(batch_tokens, seed)
        corpus.refresh()
        seed += 1


@torch.inference_mode()
def held_out_agreement(model: Assistant, corpus: Corpus, batch_tokens: int = 4096) -> float:
    """Share of reply positions where assistant and target choose the same of all tokens."""
    hits = total = 0
    for batch in corpus.epoch(batch_tokens, 0):
        chosen = batch["roles"][:, 1:] == REPLY
        hidden = model(batch["tokens"])[:, :-1][chosen]
        wanted = batch["top_ids"][:, :-1][chosen][:, 0]
        for part, ids in zip(hidden.split(1024), wanted.split(1024), strict=True):
            hits += ((part @ model.embeddings.T).argmax(-1) == ids).sum().item()
        total += len(wanted)
    return hits / max(total, 1)


def build(arguments: argparse.Namespace) -> Assistant:
    """The assistant at its start: some of the target's layers."""
    target, _ = load_target(arguments.work)
    layers = [int(index) for index in arguments.layers.split(",")]
    config = assistant_config(target.config, len(layers))
    return Assistant(config, layers_of(target, layers), target.model.embed_tokens.weight)


def run(trainer: Trainer, corpus: Corpus, held_out: Corpus, folder: Path) -> None:
    """Train to the last step; save, export and report now and then."""
    arguments, losses, tokens, clock = trainer.arguments, [], 0, time.monotonic()
    for batch in endless_batches(corpus, arguments.batch_tokens, trainer.step):
        if trainer.step >= arguments.steps:
            break
        losses.append(trainer.train_on(batch))
        tokens += batch["tokens"].numel()
        if trainer.step % arguments.report_every and trainer.step < arguments.steps:
            continue
        trainer.save(folder / "checkpoint.pt")
        export(trainer.model.state(), trainer.model.config, folder / "export")
        loss, agreement = (sum(column) / len(losses) for column in zip(*losses, strict=True))
        rate, held = tokens / (time.monotonic() - clock), held_out_agreement(trainer.model, held_out)
        print(
            f"{time.strftime('%H:%M:%S')} {folder.name} step {trainer.step} "
            f"loss {loss:.3f} agreement {agreement:.3f} held-out {held:.4f} "
            f"{rate:.0f} tokens/s, corpus {corpus.token_count()}",
            flush=True,
        )
        losses, tokens, clock = [], 0, time.monotonic()


def parse_arguments() -> argparse.Namespace:
    """Command line; the defaults are those of the shipped assistant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="target/, shards/ and held_out/ are here")
    parser.add_argument("--run", default="run", help="folder under WORK for checkpoint and export")
    parser.add_argument("--layers", default="0,1,29", help="the target's layers to start from")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--decay-steps", type=int, default=500)
    parser.add_argument("--warmup-steps", type=int, default=20)
    parser.add_argument("--batch-tokens", type=int, default=6144)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--first-choice", type=float, default=0.3, help="extra weight of the greedy choice")
    parser.add_argument("--report-every", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Build or resume, then train."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    folder = arguments.work / arguments.run
    folder.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(build(arguments), arguments)
    if (folder / "checkpoint.pt").exists():
        trainer.resume(folder / "checkpoint.pt")
    run(trainer, Corpus(arguments.work / "shards"), Corpus(arguments.work / "held_out"), folder)


if __name__ == "__main__":
    main()
