"""Every code block of README.md, docs/ and the skill is carried out, page by page.

    title="NAME"      the block is a file in the reader's folder
    sh                each line is a command; one that ends in `&` is a service
    <!-- fails -->    above it: each line exits with 1
    <!-- shown -->    above it: it needs what is not here; commands and options are looked up
    python            runs; `print(x)  # 0.5` prints 0.5, `x  # 0.5` is 0.5
    pycon             a doctest
    text              is in what the last command or code printed
    json, toml, yaml  can be parsed

The folder begins as a copy of `project/`. An address on localhost is the service that the page
starts there, else one of `documented_services.py`; every model is a scripted one.
"""

import ast
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import socket
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import forked
from tests.data.file_server import FileServer, publish
from tests.judge_controls import control_reply
from tests.labels.test_model_grades import reply as grade
from tests.llm_providers.model_server import ModelServer
from tests.loopback import free_port
from tests.serve.serving import serving_in_thread
from tests.targets.documented_services import documented_app
from tests.targets.search_services import TOKEN

from assay.cli.app import app

ROOT = Path(__file__).parents[2]
GENERATED = {"cli.md", "python-reference.md", "settings.md"}
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name not in GENERATED),
    ROOT / "skills" / "assay" / "SKILL.md",
]
OWN_PORT = "8765"  # of a service that a page starts
# The commands of these pages are about the service, not about the figures.
FEW_QUERIES = {"targets.md"}
READERS_COMMANDS = {
    *("make", "pip", "uvx", "curl", "docker", "docker-compose", "git", "kubectl"),
    *("sh", "export", ".", "cd"),
}
LANGUAGES = {"sh", "python", "pycon", "text", "json", "toml", "yaml", "http", "sql"}
_BLOCK = re.compile(
    r"^([ ]*)(?:<!-- (\w+) -->\n\1)?```(\w*)([^\n]*)\n(.*?)^\1```", flags=re.DOTALL | re.MULTILINE
)
_PORT = re.compile(r"(?:localhost|127\.0\.0\.1):(\d{4})")


@dataclass(frozen=True)
class Block:
    language: str
    mark: str
    words: str
    text: str

    @property
    def title(self) -> str:
        found = re.search(r'title="([^"]+)"', self.words)
        return found[1] if found else ""


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(language, mark, words, re.sub(rf"^{indent}", "", body, flags=re.MULTILINE))
        for indent, mark, language, words, body in _BLOCK.findall(text)
    ]


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    folder: Path
    env: dict[str, str]
    stack: contextlib.ExitStack
    printed: str = ""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def follow(self, block: Block) -> None:
        if block.title:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            lines = block.text.replace("\\\n", " ").splitlines()
            commands = [line for line in lines if line and not line.startswith("#")]
            self.printed = ""
            for command in commands:
                self.run(command, block.mark)
        elif block.language == "python":
            self.printed = self.execute(block.text)
        elif block.language == "pycon":
            parsed = doctest.DocTestParser().get_doctest(block.text, self.names, "page", None, 0)
            assert doctest.DocTestRunner().run(parsed, clear_globs=False).failed == 0
        elif block.language == "text" and self.printed and block.mark != "shown":
            self.compare(block.text)
        elif block.language in ("json", "toml", "yaml"):
            parse(block)

    def run(self, command: str, mark: str) -> None:
        words = shlex.split(re.sub(r"\s+# .*$", "", command))
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            self.env |= {name: value} if mark != "shown" else {}
        if words[0] in READERS_COMMANDS:
            return
        serves = words[:2] == ["assay", "serve"] and words[-1] != "&"
        if mark == "shown" or serves:
            look_up(words)
        elif words[-1] == "&":
            self.serve(words[:-1])
        else:
            words = [name for word in words for name in self.expand(word)]
            done = forked.run(*program(words), cwd=self.folder, env=self.env)
            said = done.stdout + done.stderr
            assert done.returncode == (mark == "fails"), f"{command}\n{said}"
            assert "every score is 0" not in said, command
            self.printed += said

    def expand(self, word: str) -> list[str]:
        """What the shell makes of `shards/*`."""
        found = sorted(self.folder.glob(word)) if re.fullmatch(r"[\w./-]+/\*", word) else []
        return [str(path.relative_to(self.folder)) for path in found] or [word]

    def serve(self, words: list[str]) -> None:
        errors = self.stack.enter_context((self.folder / "service.log").open("w"))
        service = forked.started(*program(words), cwd=self.folder, env=self.env, stderr=errors)
        process = self.stack.enter_context(service)
        port = int(self.env["PAGE_PORT"])
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            assert process.poll() is None, (words, (self.folder / "service.log").read_text())
            time.sleep(0.05)
        raise AssertionError(f"{words} does not listen on {port}")

    def execute(self, code: str) -> str:
        """What the code prints; a comment after print or a bare name is its value."""
        told = dict(re.findall(r"^((?:print\(.*\)|[\w.\[\]\"'@()]+))  # (.+)$", code, re.MULTILINE))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for node in ast.parse(code).body:
                source = ast.get_source_segment(code, node) or ""
                before = printed.tell()
                exec(compile(ast.Module([node], []), "<page>", "exec"), self.names)
                if source.startswith("print(") and source in told:
                    said = printed.getvalue()[before:].strip()
                    assert told[source].startswith(said), (source, said)
        return printed.getvalue()

    def compare(self, shown: str) -> None:
        printed = " ".join(plain(self.printed).split())
        for line in plain(shown).splitlines():
            for part in line.split("…"):
                assert " ".join(part.split()) in printed, (line, self.printed)


def plain(text: str) -> str:
    """Without what differs from run to run: latencies, times and names of runs."""
    text = re.sub(r"^(latency|run) .*$", r"\1", text, flags=re.MULTILINE)
    return re.sub(r"\d{8}-\d{6}-[\w-]+", "RUN", text)


def parse(block: Block) -> None:
    if block.language == "json":
        for value in re.split(r"\n(?=[{[])", block.text.strip()):
            json.loads(value)
    elif block.language == "toml":
        tomllib.loads(block.text)
    else:
        yaml.safe_load(block.text)


def program(words: list[str]) -> list[str]:
    if words[0] == "python":
        return ["tests.docs.test_pages:run_script", *words[1:]]
    return [{"assay": forked.ASSAY, "pytest": forked.PYTEST}[words[0]], *words[1:]]


def run_script() -> None:
    """`python FILE`, or `python -c CODE`, in a forked process."""
    import runpy

    sys.path.insert(0, str(Path.cwd()))
    if sys.argv[1] == "-c":
        exec(sys.argv[2], {"__name__": "__main__"})
    else:
        runpy.run_path(sys.argv[1], run_name="__main__")


def look_up(words: list[str]) -> None:
    """The command is one of Assay's, with these options."""
    if words[0] != "assay":
        return
    verbs = dict(app.all_verbs())
    command = verbs.get((words[1],)) or verbs.get(tuple(words[1:3]))
    if command is None:
        assert words[1] in app.verbs or words[1].startswith("--"), words
        return
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    given = {word for word in words[2:] if word.startswith("--")}
    assert given <= known | {"--help", "--help-all"}, words


def reply(prompt: str) -> str:
    """Of the model that pages ask: right about words, so that its controls pass. One answer is
    right, or better, if it is the reference word for word.
    """
    if prompt.startswith("Grade"):
        return grade(prompt)
    said = re.findall(r"<answer \w+>\s*([^<]*)", prompt)
    if prompt.startswith("Choose"):
        *reference, first, second = said
        return "FIRST" if first in reference else "SECOND" if second in reference else "TIE"
    if "TRUE or FALSE" in prompt:
        return "TRUE" if len(set(said)) < 2 else "FALSE"
    return control_reply(prompt) or "YES"


@dataclass(frozen=True)
class Services:
    search: str
    model: str
    mirror: str


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with contextlib.ExitStack() as stack:
        search = stack.enter_context(serving_in_thread(documented_app()))
        model = stack.enter_context(ModelServer().running())
        model.reply = reply
        mirror = stack.enter_context(FileServer().running())
        publish_scifact(mirror)
        yield Services(search.removeprefix("http://"), model.url, mirror.url)


def publish_scifact(mirror: FileServer) -> None:
    """A data set of one question, as BEIR's authors and as the hub have it."""
    files = {
        "corpus.jsonl": '{"_id": "d1", "text": "Tea is steeped."}\n',
        "queries.jsonl": '{"_id": "q1", "text": "tea?"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"scifact/{name}", content)
    mirror.files["/scifact.zip"] = packed.getvalue()
    publish(mirror, "mteb/scifact", {name: text.encode() for name, text in files.items()})


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, services: Services) -> Iterator[Reader]:
    model, mirror = services.model, services.mirror
    folder = tmp_path / "project"
    shutil.copytree(Path(__file__).parent / "project", folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_EVAL_")}
    env = kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ASSAY_CACHE": str(tmp_path / "cache"),
        "ASSAY_BEIR_URL": mirror,
        "HF_ENDPOINT": mirror,
        "RAG_EVAL_OPENAI_BASE_URL": model,
        "RAG_EVAL_OLLAMA_BASE_URL": model.removesuffix("/v1"),
        "RAG_EVAL_ANTHROPIC_BASE_URL": model.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "test",
        "SEARCH_TOKEN": TOKEN,
        "OPENAI_API_KEY": TOKEN,
        "NO_PROXY": "*",
        "PAGE_PORT": str(free_port()),
    }
    for name in {*os.environ} - {*env}:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", [str(folder), *sys.path])
    modules = set(sys.modules)
    with contextlib.ExitStack() as stack:
        yield Reader(folder, env, stack)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_does_what_it_says(page: Path, reader: Reader, services: Services) -> None:
    if page.name in FEW_QUERIES:
        reader.env["ASSAY_NUM_QUERIES"] = "4"
    blocks = read_blocks(page)
    port = reader.env["PAGE_PORT"]

    def local(match: re.Match[str]) -> str:
        return f"localhost:{port}" if match[1] == OWN_PORT else services.search

    for block in blocks:
        if page.name == "README.md" and block.language == "text":
            continue  # the output of `make eval`, compared in tests/cli/test_readme.py
        assert block.language in LANGUAGES or block.title, (page.name, block.text[:60])
        text = _PORT.sub(local, block.text).replace(OWN_PORT, port)
        reader.follow(replace(block, text=text))
