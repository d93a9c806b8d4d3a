"""A local server that speaks as much of the Hub's HTTP interface as Tandem and huggingface_hub use, with faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

COMMIT = "c0ffee" + "0" * 34
ACCESS = "hf_granted_access_00"  # the token of an account that may read everything
NO_ACCESS = "hf_stranger_00000000"
PAGE = 100


@dataclass
class Repo:
    """One model; files that are not text go the way of large ones."""

    files: dict[str, bytes] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    tags: tuple[str, ...] = ("safetensors", "license:apache-2.0")
    parameters: int | None = 1000
    downloads: int = 0
    task: str = "text-generation"
    model_type: str = "llama"
    format: str = "F32"
    claimed: dict[str, int] = field(default_factory=dict)  # sizes that are told in place of the true ones

    @classmethod
    def of(cls, folder: Path, **changes: Any) -> Repo:
        return cls({each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}, **changes)


@dataclass
class Fault:
    """What goes wrong with a file, `times` times: its bytes stop after `drop_after`, come wrong, or not at all."""

    times: int = 1
    status: int = 0
    drop_after: int | None = None
    wrong: bool = False
    stall: float = 0.0  # seconds of silence behind `drop_after`
    slow: float = 0.0  # seconds for every 64 KiB
    retry_after: str = ""


class Hub:
    """Its state: what tests put in, and what it counted."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: dict[str, Fault] = {}
        self.sent: Counter[str] = Counter()  # bytes of each file that went out
        self.requests: list[str] = []
        self.tokens: list[str] = []
        self.url = ""

    def fault(self, name: str) -> Fault:
        found = self.faults.get(name)
        if found is None or found.times <= 0:
            return Fault()
        found.times -= 1
        return found


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".gguf", ".bin"))


def oid(content: bytes, name: str) -> str:
    if is_large(name):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.hub.requests.append(f"{self.command} {self.path}")
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        try:
            self._route(address.path, query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _route(self, path: str, query: dict[str, list[str]]) -> None:
        if path == "/api/models":
            self._search(query)
        elif path == "/api/whoami-v2":
            if self._token() in (ACCESS, NO_ACCESS):
                self._json(
                    {"name": "ada", "type": "user", "orgs": [], "auth": {"accessToken": {"displayName": "t"}}}
                )
            else:
                self._error(401, "", message="Invalid credentials in Authorization header")
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/refs", path):
            if self._may_read(match[1]):
                branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": COMMIT}
                self._json({"branches": [branch], "tags": [], "converts": []})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._info(match[1], match[2] or "main")
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(*match.groups())
        elif match := re.fullmatch(r"/large/([^/]+/[^/]+)/(.+)", path):
            self._content(self.hub.repos[match[1]].files[match[2]], match[2])
        else:
            self._error(404, "RepoNotFound")

    def _search(self, query: dict[str, list[str]]) -> None:
        fault = self.hub.fault("/api/models")
        if fault.stall:
            time.sleep(fault.stall)
        if fault.status:
            self._error(fault.status, "", fault.retry_after)
            return
        found = [name for name, repo in self.hub.repos.items() if self._matches(name, repo, query)]
        key = {"downloads": lambda name: -self.hub.repos[name].downloads}.get(query.get("sort", [""])[0])
        found.sort(key=key)
        start = int(query.get("cursor", ["0"])[0])
        headers = {}
        if start + PAGE < len(found):
            rest = "&".join(
                f"{name}={quote(value)}"
                for name, values in query.items()
                if name != "cursor"
                for value in values
            )
            headers["Link"] = f'<{self.hub.url}/api/models?{rest}&cursor={start + PAGE}>; rel="next"'
        self._json([self._describe(name) for name in found[start : start + PAGE]], headers)

    def _matches(self, name: str, repo: Repo, query: dict[str, list[str]]) -> bool:
        text = query.get("search", [""])[0].lower()
        bounds = dict(
            part.split(":") for part in query.get("num_parameters", [""])[0].split(",") if ":" in part
        )
        size = repo.parameters or 0
        gated = query.get("gated", [""])[0].lower()
        return (
            text in name.lower()
            and not repo.private
            and query.get("pipeline_tag", [repo.task])[0] == repo.task
            and all(each in repo.tags for each in query.get("filter", []))
            and int(bounds.get("min", 0)) <= size <= int(bounds.get("max", size))
            and (not gated or (gated == "true") == repo.gated)
        )

    def _describe(self, name: str) -> dict[str, Any]:
        repo = self.hub.repos[name]
        described: dict[str, Any] = {
            "id": name,
            "sha": COMMIT,
            "downloads": repo.downloads,
            "likes": repo.downloads // 10,
            "gated": "manual" if repo.gated else False,
            "private": repo.private,
            "tags": list(repo.tags),
            "pipeline_tag": repo.task,
            "lastModified": "2026-01-02T03:04:05.000Z",
            "config": {
                "model_type": repo.model_type,
                "architectures": [repo.model_type.title() + "ForCausalLM"],
            },
        }
        if repo.parameters is not None and "gguf" in repo.tags:
            described["gguf"] = {"total": repo.parameters, "architecture": repo.model_type}
        elif repo.parameters is not None:
            described["safetensors"] = {
                "parameters": {repo.format: repo.parameters},
                "total": repo.parameters,
            }
        return described

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _may_read(self, name: str) -> bool:
        """Answers as the Hub does where it may not: 401 without a token, whatever is hidden."""
        repo = self.hub.repos.get(name)
        token = self._token()
        if token not in ("", ACCESS, NO_ACCESS):
            self._error(401, "", message="Invalid credentials in Authorization header")
            return False
        if repo is None or (repo.private and token != ACCESS):
            self._error(404 if token else 401, "RepoNotFound")
            return False
        return True

    def _info(self, name: str, revision: str) -> None:
        if not self._may_read(name):
            return
        if revision not in ("main", COMMIT):
            self._error(404, "RevisionNotFound")
            return
        siblings: list[dict[str, Any]] = []
        for file, content in self.hub.repos[name].files.items():
            size = self.hub.repos[name].claimed.get(file, len(content))
            entry: dict[str, Any] = {"rfilename": file, "size": size, "blobId": oid(content, "text")}
            if is_large(file):
                entry["lfs"] = {"size": size, "sha256": oid(content, file), "pointerSize": 134}
            siblings.append(entry)
        self._json(self._describe(name) | {"siblings": siblings})

    def _resolve(self, name: str, revision: str, file: str) -> None:
        if not self._may_read(name):
            return
        repo = self.hub.repos[name]
        if repo.gated and self._token() != ACCESS and file != "README.md":
            self._error(403 if self._token() else 401, "GatedRepo")
            return
        if revision not in ("main", COMMIT) or file not in repo.files:
            self._error(404, "EntryNotFound" if revision in ("main", COMMIT) else "RevisionNotFound")
            return
        content = repo.files[file]
        if not is_large(file):
            self._content(content, file)
            return
        self.send_response(302)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Size", str(len(content)))
        self.send_header("X-Linked-ETag", f'"{oid(content, file)}"')
        self.send_header("Location", f"{self.hub.url}/large/{name}/{file}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _content(self, content: bytes, file: str) -> None:
        fault = self.hub.fault(file) if self.command == "GET" else Fault()
        if fault.status:
            self._error(fault.status, "", fault.retry_after)
            return
        start = 0
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(match[1])
        body = content[start:]
        if fault.wrong:
            body = bytes(255 - each for each in body)
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{oid(content, file)}"')
        self.send_header("Accept-Ranges", "bytes")
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self._send(body, file, fault)

    def _send(self, body: bytes, file: str, fault: Fault) -> None:
        end = len(body) if fault.drop_after is None else min(fault.drop_after, len(body))
        step = 1 << 16
        for at in range(0, end, step):
            block = body[at : min(at + step, end)]
            self.hub.sent[file] += len(block)  # before it goes, for whoever has it may look at once
            try:
                self.wfile.write(block)
            except OSError:
                self.hub.sent[file] -= len(block)
                raise
            if fault.slow:
                time.sleep(fault.slow)
        if end < len(body):
            self.wfile.flush()
            time.sleep(fault.stall)
            self.close_connection = True

    def _json(self, value: object, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _error(self, status: int, code: str, retry_after: str = "", message: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if message:
            self.send_header("X-Error-Message", message)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()
