"""Numbers as people read them, the same in the window and in the terminal."""

from __future__ import annotations


def size(number: int | None) -> str:
    """Bytes in GB or MB, of a thousand each, as disks and the Hub count them; a question mark for None."""
    if number is None:
        return "?"
    if number >= 1e9:
        return f"{number / 1e9:.2f} GB"
    return f"{number / 1e6:.1f} MB" if number >= 1e5 else f"{number / 1e3:.1f} kB"


def tokens(number: int) -> str:
    """A length of context, in units of 1024 tokens where it is made of such."""
    return f"{number // 1024:,}K" if number % 1024 == 0 else f"{number:,}"


def count(number: int | None) -> str:
    """A number of weights, or of downloads."""
    if number is None:
        return "?"
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:.3g}{letter}"
    return str(number)
