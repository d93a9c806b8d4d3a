"""The access token, in the store that all Hugging Face tools share; shown only masked."""

from __future__ import annotations

import os
from pathlib import Path

from huggingface_hub import constants, get_token

from app.errors import UserFacingError
from app.hub.connection import Connection
from app.hub.failures import explained


def masked() -> str:
    """The last four characters; empty where there is no token."""
    token = get_token()
    return f"••••{token[-4:]}" if token else ""


def keep(connection: Connection, token: str) -> str:
    """Asks the Hub whose it is and stores it; returns that name. Raises UserFacingError when it is not valid."""
    if not token.startswith("hf_") or not token.isascii():
        raise UserFacingError(
            "This is no access token.",
            "A token begins with hf_.",
            "Copy one from huggingface.co/settings/tokens.",
        )
    with explained("the Hub", connection.address):
        name = connection.api().whoami(token=token)["name"]
    _store(token)
    return str(name)


def _store(token: str) -> None:
    """Not through huggingface_hub's login(), which asks huggingface.co also where a mirror is in use."""
    path = Path(constants.HF_TOKEN_PATH)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(token, encoding="ascii")


def drop() -> None:
    """Raises UserFacingError where the environment brings the token: that is not the program's to change."""
    if os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"):
        raise UserFacingError("The token comes from the variable HF_TOKEN.", "", "Remove it there.")
    Path(constants.HF_TOKEN_PATH).unlink(missing_ok=True)  # not what other tools have stored under names
