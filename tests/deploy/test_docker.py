"""The image and the composition, as far as they can be tried without a Docker daemon."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import forked

ROOT = Path(__file__).parents[2]
STEPS = "ASSAY_IMAGE_STEPS"
SCHEMA = "ASSAY_COMPOSE_SCHEMA"

Step = tuple[str, str]


def steps() -> list[Step]:
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines()]
    found = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, rest in found]


def stages() -> dict[str, list[Step]]:
    """What is run for each target, the stages it is built upon included."""
    found: dict[str, list[Step]] = {}
    for word, rest in steps():
        if word == "FROM":
            image, _, name = rest.split()
            current = found[name] = list(found.get(image, []))
        else:
            current.append((word, rest))
    return found


def copies() -> list[tuple[list[str], str]]:
    return [(rest.split()[:-1], rest.split()[-1]) for word, rest in steps() if word == "COPY"]


@pytest.mark.parametrize("name", ["green", "purple", "mcp", "ui"])
def test_an_image_runs_our_server_without_root_and_can_be_health_checked(name: str) -> None:
    done = stages()[name]
    words = [word for word, _ in done]
    assert dict(done)["USER"] == "assay"
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert dict(done)["ENTRYPOINT"] == f'["assay", "serve", "{name}"]'
    assert any("install" in rest and "curl" in rest for word, rest in done if word == "RUN")
    port = dict(done)["EXPOSE"]
    assert f"curl --fail --silent http://localhost:{port}/" in dict(done)["HEALTHCHECK"]


def test_the_ignore_file_lets_in_what_is_copied_and_no_more() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {source for sources, _ in copies() for source in sources}
    assert "*" in rules
    assert copied == let_in
    for source in copied:
        assert (ROOT / source).exists()
        assert not any(fnmatch.fnmatch(source, secret) for secret in (".env*", ".git*", ".venv*"))


COMPOSE = ROOT / "docker-compose.yml"
CLUSTER = ROOT / "examples" / "docker-cluster.yml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]


def test_the_evaluator_comes_without_an_agent_on_the_port_of_the_users_own() -> None:
    """Someone who evaluates an agent of theirs starts it on 9010, as the specification says."""
    started = {name: each for name, each in SERVICES.items() if "profiles" not in each}
    assert list(started) == ["qdrant", "mcp-server", "green-agent"]
    assert "9010:9010" not in str(started)
    assert SERVICES["purple-agent"]["profiles"] == ["purple"]
    green = SERVICES["green-agent"]
    assert "host.docker.internal:host-gateway" in green["extra_hosts"]
    assert "host.docker.internal" in green["environment"]["ASSAY_ALLOWED_HOSTS"]


def test_every_service_has_a_health_check_and_a_limit_of_memory() -> None:
    services = {**yaml.safe_load(CLUSTER.read_text())["services"], **SERVICES}
    for name, service in services.items():
        assert set(service["healthcheck"]) >= {"test", "interval", "timeout", "retries"}, name
        assert "memory" in service["deploy"]["resources"]["limits"], name


@pytest.mark.parametrize("name", ["mcp-server", "purple-agent", "green-agent", "ui"])
def test_the_flags_of_a_service_are_flags_of_its_server(name: str) -> None:
    service = SERVICES[name]
    command = (forked.ASSAY, "serve", service["build"]["target"], *service["command"])
    done = forked.run(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert forked.run(*command, "--no-such-flag").returncode == 2


@pytest.mark.skipif(not os.environ.get(SCHEMA), reason=f"set {SCHEMA}")
def test_docker_compose_accepts_the_composition() -> None:
    """What `docker compose config` checks: names and types of all keys, and what they refer to."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(json.loads(Path(os.environ[SCHEMA]).read_text()))
    conf = (ROOT / "examples" / "docker-cluster.conf").read_text()
    for settings in ({}, dict(re.findall(r"^(\w+)=(.*)$", conf, re.MULTILINE))):
        found = _interpolated(COMPOSE, settings)
        assert [error.message for error in validator.iter_errors(found)] == []
        services, volumes = found["services"], found.get("volumes", {})
        for name, service in services.items():
            assert set(service.get("depends_on", ())) <= set(services), name
            named = {str(one).partition(":")[0] for one in service.get("volumes", ())}
            assert {one for one in named if one[0] not in "./"} <= set(volumes), name
    assert validator.is_valid(_interpolated(CLUSTER, {}))


def _interpolated(file: Path, settings: dict[str, str]) -> Any:
    """The composition with its variables replaced: by their value, else by their default."""

    def value(match: re.Match[str]) -> str:
        return settings.get(match["name"], match["default"] or "")

    def replaced(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: replaced(item) for name, item in part.items()}
        if isinstance(part, list):
            return [replaced(item) for item in part]
        pattern = r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}"
        return re.sub(pattern, value, part) if isinstance(part, str) else part

    return replaced(yaml.safe_load(file.read_text()))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_steps_of_the_image_make_a_server_that_starts(tmp_path: Path) -> None:
    """COPY and RUN as the Dockerfile says, into an empty folder and an empty environment."""
    if not os.environ.get(STEPS):
        pytest.skip(f"set {STEPS}=1: it installs every dependency anew, which takes a minute")
    app = tmp_path / "app"
    app.mkdir()
    for sources, target in copies():
        for source in sources:
            place = app / target if target != "./" else app / source
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / "bin"
    # Compiling what is never imported would be most of the processor time.
    options = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    clean = {**os.environ, **options, "PATH": f"{binaries}:{os.environ['PATH']}"}
    (install,) = [
        rest for word, rest in stages()["base"] if word == "RUN" and "pip install" in rest
    ]
    subprocess.run(["sh", "-c", install], cwd=app, env=clean, check=True, capture_output=True)
    shutil.rmtree(app)
    for name in ("green", "purple", "mcp", "ui"):
        command = shlex.join(["assay", "serve", name, "--help"])
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=clean, capture_output=True)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "venv")
