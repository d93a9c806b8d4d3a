"""The access token, in the store that all Hugging Face tools share; shown only masked."""

from __future__ import annotations

import os

from huggingface_hub import get_token, login, logout

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
    login(token=token, add_to_git_credential=False, skip_if_logged_in=False)
    return str(name)


def drop() -> None:
    """Raises UserFacingError where the environment brings the token: that is not the program's to change."""
    if os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"):
        raise UserFacingError("The token comes from the variable HF_TOKEN.", "", "Remove it there.")
    logout()
