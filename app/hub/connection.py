"""How the Hub is reached: address, cache, proxy, certificates, token. The environment's word holds by default."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from huggingface_hub import HfApi, constants, get_session, get_token, set_client_factory
from huggingface_hub.utils import build_hf_headers, httpx
from huggingface_hub.utils._http import default_client_factory

from app import __version__
from app.errors import UserFacingError

# Replies of the Hub's programming interface; a file's bytes have a limit of their own.
SECONDS = 20.0

_applied = ("", "")  # proxy and certificates that huggingface_hub's client has
_applying = Lock()


@dataclass(frozen=True, slots=True)
class Connection:
    """Empty fields follow HF_ENDPOINT, HF_HUB_CACHE or HF_HOME, the system's proxies and its certificates."""

    endpoint: str = ""
    cache: str = ""
    proxy: str = ""
    certificates: str = ""  # a PEM file, as companies hand out
    offline: bool = False

    @property
    def address(self) -> str:
        return self.endpoint.rstrip("/") or constants.ENDPOINT

    @property
    def folder(self) -> Path:
        """The cache that every Hugging Face tool shares."""
        return Path(self.cache or constants.HF_HUB_CACHE).expanduser()

    @property
    def is_offline(self) -> bool:
        return self.offline or constants.is_offline_mode()

    def api(self) -> HfApi:
        """Raises UserFacingError when the person has asked for no network."""
        self.require_network()
        self.apply()
        return HfApi(self.address, library_name="tandem", library_version=__version__)

    def headers(self) -> dict[str, str]:
        return build_hf_headers(token=get_token(), library_name="tandem", library_version=__version__)

    def session(self) -> httpx.Client:
        self.require_network()
        self.apply()
        return get_session()

    def require_network(self) -> None:
        if self.is_offline:
            raise UserFacingError(
                "Tandem is offline.",
                "The setting or the variable HF_HUB_OFFLINE forbids every request.",
                "Use a model that is on disk, or allow the network again.",
            )

    def apply(self) -> None:
        """Makes proxy and certificates those of all later requests. Raises UserFacingError for a bad file.

        Every request does this first; a change that is applied at once is checked at once.
        """
        global _applied  # noqa: PLW0603 (huggingface_hub has one client for the whole process)
        wanted = (self.proxy, self.certificates)
        with _applying:
            if wanted != _applied:
                self._trust()
                set_client_factory(self._make_client if any(wanted) else default_client_factory)
                _applied = wanted

    def _make_client(self) -> httpx.Client:
        known = default_client_factory().event_hooks
        return httpx.Client(
            event_hooks=known,
            follow_redirects=True,
            timeout=None,
            proxy=self.proxy or None,
            verify=self._trust(),
        )

    def _trust(self) -> ssl.SSLContext | bool:
        if not self.certificates:
            return True
        try:
            return ssl.create_default_context(cafile=os.path.expanduser(self.certificates))  # noqa: PTH111
        except (OSError, ssl.SSLError) as error:
            raise UserFacingError(
                "The certificate file cannot be used.", str(error), "Choose a file in PEM format."
            ) from error
