"""Sending a canary to a server in every shape, and expecting silence about it."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx
from tests.phi.recording import CANARY, Recording, asking

HEADERS = {
    "X-Patient": CANARY,
    "User-Agent": CANARY,
    "Referer": f"http://x/?q={CANARY}",
}
BROKEN: list[bytes] = [
    CANARY.encode(),
    f'{{"query": "{CANARY}'.encode(),
    f'["{CANARY}"]'.encode(),
    f'"{CANARY}"'.encode(),
    CANARY.encode() + b"\xff\xfe",
    json.dumps({CANARY: {CANARY: [CANARY]}}).encode(),
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": CANARY, "params": [CANARY]}).encode(),
]


@dataclass
class Caller:
    """Sends, and keeps what came back where it was an error."""

    http: httpx.AsyncClient
    url: str
    errors: list[str]

    async def post(self, path: str, body: Any, **headers: str) -> str:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **HEADERS, **headers}
        with asking():
            answer = await self.http.post(self.url + path, content=content, headers=sent)
        if answer.status_code >= 400 or _says_error(answer.text):
            self.errors.append(f"{path} {answer.text} {dict(answer.headers)}")
        return answer.text

    async def get(self, path: str, method: str = "GET") -> str:
        with asking():
            answer = await self.http.request(method, self.url + path, headers=HEADERS)
        if answer.status_code >= 400:
            self.errors.append(f"{path.replace(CANARY, '*')} {answer.text}")
        return answer.text

    async def strange(self, paths: list[str]) -> None:
        """What every server may be sent: wrong paths, methods, queries and bodies."""
        for path in paths:
            for body in BROKEN:
                await self.post(path, body)
            await self.post(path, b"x=" + CANARY.encode(), **{"Content-Type": CANARY})
            await self.get(path)
        for method in ("GET", "DELETE", "PUT"):
            await self.get(f"/{CANARY}/x?q={CANARY}", method)
        await self.get(f"/health?q={CANARY}")
        await send_raw(self.url, f"GET /{CANARY} {CANARY}\r\n{CANARY}\r\n\r\n".encode())


def _says_error(text: str) -> bool:
    return '"ok":false' in text or '"error":' in text or '"isError":true' in text


async def send_raw(url: str, content: bytes) -> None:
    place = httpx.URL(url)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write(content)
    await writer.drain()
    await reader.read()
    writer.close()
    await writer.wait_closed()


def expect_silence(log: Recording, errors: list[str], at_least: int) -> None:
    assert len(errors) >= at_least, "the broken requests were taken for good ones"
    assert [text[:400] for text in errors if CANARY in text] == []
    expect_silent_log(log)


def expect_silent_log(log: Recording) -> None:
    """For servers whose SDK quotes a request that does not parse, to its own caller alone."""
    assert log.leaks(log.ours.getvalue()) == []
    assert log.leaks(log.raw.getvalue()) == []
    assert "Traceback" not in log.ours.getvalue()
    assert "assay.serve.requests" in log.ours.getvalue(), "nothing was logged at all"
