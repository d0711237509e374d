"""What a server that others can reach may call for them: nothing that only it can see."""

import ipaddress
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.contract.running import running
from tests.tiny_dataset import tiny_dataset

from assay.errors import TargetError, UsageError
from assay.net.client import open_client
from assay.net.outbound import (
    POLICY_VARIABLE,
    UNRESTRICTED,
    OutboundPolicy,
    OutboundRefused,
    policy_of_process,
    split_address,
)
from assay.targets.a2a import A2AAgent
from assay.targets.target_kinds import OpenContext, Target

GUARDED = OutboundPolicy(public_only=True)


class Names:
    """A resolver that answers with the next entry each time it is asked."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class Server:
    url: str
    port: int
    hosts: list[str]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A real one on loopback, which is just what strangers must not reach through us."""
    hosts: list[str] = []

    async def answer(request: Request) -> PlainTextResponse:
        hosts.append(request.headers["host"])
        return PlainTextResponse("hello")

    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    async with running(Starlette(routes=routes)) as url:
        yield Server(url, int(url.rpartition(":")[2]), hosts)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "0.0.0.0"),
        *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1"),
        *("255.255.255.255", "::1", "::", "fe80::1", "fe80::1%2", "fd00:ec2::254", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
        *("::1:0:0", "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:169.254.169.254"),
    ],
)
def test_special_addresses_are_refused(address: str) -> None:
    with pytest.raises(OutboundRefused, match="--allow-hosts"):
        GUARDED.check("somewhere.example", 80, ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"),
        *("64:ff9b::5db8:d822", "::ffff:93.184.216.34", "::93.184.216.34", "2002:5db8:d822::"),
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    GUARDED.check("somewhere.example", 80, ipaddress.ip_address(address))


@pytest.mark.parametrize("user", ["user:pass", "public.example", ""])
def test_an_address_that_hides_its_host_behind_a_user_is_refused(user: str) -> None:
    with pytest.raises(OutboundRefused, match="user name or password"):
        GUARDED.check_url(f"http://{user}@public.example/")


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "allowed"),
    [
        ("purple-agent", "Purple-Agent.", 9010, "172.18.0.3", True),
        ("purple-agent", "purple-agent.evil.example", 9010, "172.18.0.3", False),
        ("purple-agent:9010", "purple-agent", 9010, "172.18.0.3", True),
        ("purple-agent:9010", "purple-agent", 22, "172.18.0.3", False),
        ("172.18.0.0/16", "anything", 80, "172.18.9.9", True),
        ("172.18.0.0/16", "anything", 80, "172.19.9.9", False),
        ("172.18.0.0/16", "anything", 80, "::ffff:172.18.9.9", True),
        ("[::1]:9010", "::1", 9010, "::1", True),
        ("[::1]:9010", "::1", 9011, "::1", False),
        ("fd00::/8", "x", 80, "fd00:ec2::254", True),
    ],
)
def test_exceptions(entry: str, host: str, port: int, address: str, allowed: bool) -> None:
    policy = OutboundPolicy((entry,), public_only=True)
    with nullcontext() if allowed else pytest.raises(OutboundRefused):
        policy.check(host, port, ipaddress.ip_address(address))


@pytest.mark.parametrize("host", ["localhost", "agent.localhost", "LOCALHOST."])
def test_names_of_this_machine_are_refused_unless_they_are_exceptions(host: str) -> None:
    with pytest.raises(OutboundRefused, match="a name of this machine"):
        GUARDED.check_url(f"http://{host}:9010/")
    OutboundPolicy((host.lower().rstrip("."),), public_only=True).check_url(f"http://{host}/")


@pytest.mark.parametrize(
    ("listen", "guarded"),
    [
        *[("127.0.0.1", False), ("localhost", False), ("::1", False)],
        *[("0.0.0.0", True), ("::", True), ("192.168.1.5", True), ("my-host", True)],
    ],
)
def test_a_server_is_guarded_unless_it_listens_on_loopback(listen: str, guarded: bool) -> None:
    policy = OutboundPolicy.for_server(listen, " purple-agent:9010, ,10.0.0.0/8")
    assert policy.public_only is guarded
    assert policy.allow_hosts == ("purple-agent:9010", "10.0.0.0/8")


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost.", "2130706433", "0x7f000001", "127.1", "0177.0.0.1"),
        *("[::ffff:127.0.0.1]", "0.0.0.0", "0", "public.example@127.0.0.1"),
    ],
)
async def test_no_way_of_writing_loopback_gets_through(server: Server, host: str) -> None:
    target = Target("a2a", f"http://{host}:{server.port}")
    agent = A2AAgent(target, OpenContext(tiny_dataset(1), policy=GUARDED))
    with pytest.raises(TargetError):
        await agent.open()
    await agent.close()
    assert server.hosts == []


async def test_a_name_that_changes_its_address_is_refused_from_then_on(server: Server) -> None:
    """DNS rebinding: the first answer may be called, the second may not."""
    policy = OutboundPolicy(("127.0.0.1",), public_only=True)
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    url = f"http://innocent.example:{server.port}/"
    async with open_client(policy, names) as http:
        assert (await http.get(url)).text == "hello"
        with pytest.raises(OutboundRefused):
            await http.get(url)
    assert names.asked == ["innocent.example"] * 2
    assert server.hosts == [f"innocent.example:{server.port}"]


async def test_the_next_address_is_tried_where_the_first_is_dead(server: Server) -> None:
    policy = OutboundPolicy(("127.0.0.0/8",), public_only=True)
    # Nothing listens there: the server is bound to 127.0.0.1 alone.
    async with open_client(policy, Names(["127.0.0.9", "127.0.0.1"])) as http:
        answer = await http.post(f"http://x.example:{server.port}/", content=b"once more")
    assert answer.text == "hello"
    # The resolver of this machine names both its addresses, or one.
    async with open_client(OutboundPolicy(("localhost",), public_only=True)) as http:
        assert (await http.get(f"http://localhost:{server.port}/")).text == "hello"


async def test_proxies_are_passed_by(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would resolve the name itself, after it was checked here."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    async with open_client(GUARDED, Names(["127.0.0.1"])) as http:
        with pytest.raises(OutboundRefused):
            await http.get("http://innocent.example/")
    assert server.hosts == []
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with open_client(OutboundPolicy()) as http:
        assert (await http.get(server.url)).text == "hello"


def test_a_policy_reaches_a_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(POLICY_VARIABLE, raising=False)
    assert policy_of_process() == UNRESTRICTED
    assert UNRESTRICTED.environment == {}
    for hosts in ("", "a.test, 10.0.0.0/8, b.test:90"):
        policy = OutboundPolicy.for_server("0.0.0.0", hosts)
        for name, value in policy.environment.items():
            monkeypatch.setenv(name, value)
        assert policy_of_process() == policy


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h", ("h", 80)),
        ("https://h/path", ("h", 443)),
        ("https://h:80", ("h", 80)),
        ("ftp://h", None),
        ("http:///path", None),
        ("http://h:99999", None),
    ],
)
def test_host_and_port_of_a_url(url: str, address: tuple[str, int] | None) -> None:
    with nullcontext() if address else pytest.raises(UsageError, match="is not a"):
        assert split_address(url) == address
