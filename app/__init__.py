"""Tandem: local assisted generation, with every drafted token's verdict on the screen."""

import logging
import os
import sys

__version__ = "0.1.0"

# OpenMP's threads spin while they wait for each other. With another busy program on the machine the one
# waited for may not even be running, and a token then takes seconds instead of milliseconds (measured: 60 ms
# alone, over 1,000 ms beside one busy process; 100 ms beside it when the waiting thread soon goes to sleep).
# Read when torch loads its OpenMP library: GNU's on Linux, Intel's on Windows.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
os.environ.setdefault("KMP_BLOCKTIME", "1")

# Libraries that draw progress bars of their own into the terminal; ours are drawn where they belong.
os.environ.setdefault("TQDM_DISABLE", "1")

# The package `kernels` fetches native code from the Hub and runs it, without asking. transformers does so for
# every model unless told otherwise, and bitsandbytes as it is imported: for it the package is not installed.
os.environ["USE_HUB_KERNELS"] = "0"
sys.modules["kernels"] = None  # type: ignore[assignment]
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)  # says that it is missing

# In 8 bits every layer of every pass warns that it computes in float16: that is how the method works.
logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
