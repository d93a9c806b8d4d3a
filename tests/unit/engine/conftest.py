"""One thread: two that wait for each other on a busy machine take many times longer."""

import torch

torch.set_num_threads(1)
