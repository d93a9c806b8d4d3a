"""The distillation loss over a cut vocabulary, with its gradient written by hand.

A full [positions, 49152] float table would make a step bound by memory. A batch only speaks of a few thousand
tokens, so the softmax runs over those the target itself thought of there, plus some random others.
"""

from __future__ import annotations

import torch

CHUNK = 512  # positions at a time: [512, 4608] float32 stays near the cache


def cut_vocabulary(
    top_ids: torch.Tensor, probabilities: torch.Tensor, vocabulary: int, kept: int, negatives: int
) -> torch.Tensor:
    """Ids of the `kept` tokens with most of the target's mass in this batch and `negatives` random others.

    top_ids, probabilities [positions, TOP] -> [at most kept + negatives], sorted.
    """
    mass = torch.zeros(vocabulary).index_add_(0, top_ids.reshape(-1), probabilities.reshape(-1))
    chosen = mass.topk(kept).indices
    return torch.cat([chosen, torch.randint(vocabulary, (negatives,))]).unique()


class CutCrossEntropy(torch.autograd.Function):
    """Weighted cross entropy -sum_i w_i sum_v q_iv log p_iv / sum_i w_i with p = softmax(x E_cut^T).

    Its gradient in x is w (p - q) E_cut, computed in the forward pass chunk by chunk, so nothing is kept but
    one table of the size of x.
    """

    @staticmethod
    def forward(ctx, hidden, head, columns, targets, weights):
        """hidden [n, d], head [c, d], both bf16; columns, targets [n, TOP]; weights [n], of sum 1."""
        gradient = torch.empty_like(hidden)
        total, hits = torch.zeros(()), torch.zeros(())
        for start in range(0, len(hidden), CHUNK):
            part = slice(start, start + CHUNK)
            logits = (hidden[part] @ head.T).float()
            hits += (weights[part] * (logits.argmax(-1) == columns[part, 0])).sum()
            log_total = logits.logsumexp(-1, keepdim=True)
            picked = logits.gather(1, columns[part]) - log_total
            total -= (weights[part] * (targets[part] * picked).sum(-1)).sum()
            surplus = logits.sub_(log_total).exp_()
            surplus.scatter_add_(1, columns[part], -targets[part])
            gradient[part] = surplus.mul_(weights[part, None]).bfloat16() @ head
        ctx.save_for_backward(gradient)
        return total, hits

    @staticmethod
    def backward(ctx, total_gradient, _):
        """Only the hidden states have a gradient; the head is frozen."""
        return ctx.saved_tensors[0] * total_gradient, None, None, None, None


def distillation_loss(
    hidden: torch.Tensor,
    embeddings: torch.Tensor,
    top_ids: torch.Tensor,
    top_logits: torch.Tensor,
    weights: torch.Tensor,
    first_choice: float,
    kept: int = 4096,
    negatives: int = 512,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss, and the weighted share of positions where both models choose the same token of the cut ones.

    The target distribution is its top tokens renormalised, mixed with `first_choice` of one-hot weight on its
    own greedy choice, since that is what greedy drafting is judged by. hidden [n, d]; top_* [n, TOP]; weights
    [n].
    """
    targets = top_logits.float().softmax(-1)
    cut = cut_vocabulary(top_ids, targets, len(embeddings), kept, negatives)
    column_of = torch.full((len(embeddings),), -1)
    column_of[cut] = torch.arange(len(cut))
    columns = column_of[top_ids]
    targets = targets.masked_fill(columns < 0, 0.0) * (1 - first_choice)
    targets[:, 0] += first_choice
    weights = weights * (columns[:, 0] >= 0)
    targets = targets / targets.sum(-1, keepdim=True)
    return CutCrossEntropy.apply(
        hidden, embeddings[cut], columns.clamp_min(0), targets, weights / weights.sum()
    )
