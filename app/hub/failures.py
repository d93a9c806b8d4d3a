"""What goes wrong on the way to the Hub, in words (H1): one failure, one remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import get_token
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import httpx

from app.errors import UserFacingError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SIGN_IN = (
    "Give the access token of an account that may read it: in the window under Hub, with `hf auth login`, or in "
    "the variable HF_TOKEN."
)


@contextmanager
def explained(repo: str, address: str) -> Iterator[None]:
    """Turns what huggingface_hub, the network and the disk raise into words; all else passes."""
    try:
        yield
    except (OSError, ValueError, httpx.HTTPError) as error:
        known = explain(error, repo, address)
        if known is None:
            raise
        raise known from error


def explain(error: Exception, repo: str, address: str) -> UserFacingError | None:
    """None for what is no failure of the Hub, the network or the disk."""
    if isinstance(error, HFValidationError):
        return UserFacingError(f"{repo!r} is no model's name.", "", "Write it as owner/name.")
    if isinstance(error, HfHubHTTPError):
        return _answered(error, repo, f"{address}/{repo}")
    if isinstance(error, OfflineModeIsEnabled):
        return UserFacingError("Tandem is offline.", "HF_HUB_OFFLINE is set.", "Unset it to use the Hub.")
    if isinstance(error, httpx.HTTPError):
        return _unreachable(error, address)
    if isinstance(error, OSError) and error.errno in FULL:
        return UserFacingError(
            "The disk is full.",
            "What has arrived is kept, and nothing half-written counts as a model.",
            "Make room, then download again: it goes on from there.",
        )
    return None


def _answered(error: HfHubHTTPError, repo: str, page: str) -> UserFacingError:
    """The order matters: huggingface_hub's gated repository is a kind of missing one."""
    if isinstance(error, GatedRepoError):
        return _gated(repo, page)
    if isinstance(error, RevisionNotFoundError):
        return UserFacingError(f"{repo} has no such revision.", "", f"See {page}/tree/main for those it has.")
    if isinstance(error, EntryNotFoundError):
        return UserFacingError(
            f"{repo} lacks a file that it names.", "", f"See {page}, or take another model."
        )
    if isinstance(error, RepositoryNotFoundError):
        return _missing(repo)
    return _refused(error, repo, page)


def _gated(repo: str, page: str) -> UserFacingError:
    if get_token() is None:
        return UserFacingError(
            f"{repo} is gated, and there is no access token.",
            "Its owner asks who you are before you may have it.",
            f"Ask for access at {page}. {SIGN_IN}",
        )
    return UserFacingError(
        f"{repo} is gated, and your account has no access yet.",
        "",
        f"Ask for it at {page}; an owner may take some days to answer.",
    )


def _missing(repo: str) -> UserFacingError:
    if get_token() is None:
        return UserFacingError(
            f"{repo} was not found.",
            "It does not exist, or it is private and there is no access token.",
            f"Check the name. If it is private: {SIGN_IN}",
        )
    return UserFacingError(
        f"{repo} was not found.",
        "It does not exist, or it is private and your token may not read it.",
        "Check the name and what the token allows.",
    )


def _refused(error: HfHubHTTPError, repo: str, page: str) -> UserFacingError:
    status = error.response.status_code
    if status == 401:
        return UserFacingError("The Hub does not accept your access token.", "", f"Make a new one. {SIGN_IN}")
    if status == 403:
        return UserFacingError(f"The Hub forbids access to {repo}.", "", f"See {page} with your account.")
    if status == 429:
        return UserFacingError(
            "The Hub is asked too often from here.", "", "Wait some minutes, then try again."
        )
    return UserFacingError(f"The Hub answers with error {status}.", "", "Try again later.")


def _unreachable(error: httpx.HTTPError, address: str) -> UserFacingError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return UserFacingError(
            f"The certificate of {address} is not trusted here.",
            "A company's network often puts its own in between.",
            "Name its certificate file in the window under Hub, or in the variable SSL_CERT_FILE.",
        )
    if isinstance(error, httpx.TimeoutException):
        detail = "It did not answer in time."
    else:
        detail = f"The connection failed ({type(error).__name__})."
    return UserFacingError(
        f"{address} cannot be reached.", detail, "Check the network and the proxy, or use what is on disk."
    )
