"""The failures a person may meet. Anything else that is raised is a bug and ends in the crash dialog."""

from __future__ import annotations


class UserFacingError(Exception):
    """Something the person at the screen can mend: what happened, why, and what to do about it."""

    def __init__(self, title: str, detail: str = "", remedy: str = "") -> None:
        super().__init__(" ".join(part for part in (title, detail, remedy) if part))
        self.title = title
        self.detail = detail
        self.remedy = remedy


class Cancelled(Exception):
    """The person asked for it to stop; nobody needs to be told."""
