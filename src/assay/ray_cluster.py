"""Work on a Ray cluster: one function over many parts, those of lost workers once more.

`--engine ray` uses the cluster at RAY_ADDRESS or on this machine, or starts one for the time of the
command; `--engine ray://HOST:PORT` is the client port of a cluster elsewhere. Every node needs the
same version of Assay installed.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from assay.errors import AssayError, TargetError, UsageError
from assay.extras import missing_extra
from assay.files import read_text_file
from assay.privacy import is_private

_RETRIES = 3
_SECONDS_UNTIL_CHECKED = 5.0
"""How long nothing may finish before the head of the cluster is looked for: Ray would end this
process without a message a minute after it is gone."""
_FAILED_CHECKS = 3
"""In a row: a head that is busy, or a network that stumbles, may miss one connection."""
_SENT = (
    *("ASSAY_", "QDRANT_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "RAG_EVAL_", "COLLECTION_NAME"),
    *("AGENT_TOKEN", "MCP_SERVER_TOKEN", "HF_TOKEN", "HF_ENDPOINT"),
)
"""How the variables begin that a worker is given as they are here."""
_OF_A_MACHINE = ("ASSAY_CACHE", "ASSAY_OUT", "ASSAY_THREADS", "QDRANT_PATH")
_CONNECTIONS = 3
"""Tried by a client of a cluster elsewhere: gRPC sometimes breaks the process that Ray's head forks
for it, long before anything of ours has run there."""
_PARTS_PER_CPU = 2
"""In flight at once: enough that no worker waits, few enough that their results fit in memory."""


def check_engine(engine: str) -> str:
    """The engine itself. Raises `UsageError` for anything but `ray` and `ray://ADDRESS`."""
    if engine != "ray" and not (engine.startswith("ray://") and len(engine) > len("ray://")):
        raise UsageError(
            f"unknown engine {engine!r}; it is ray, or ray://HOST:PORT for a cluster elsewhere"
        )
    return engine


class RayCluster:
    """with RayCluster("ray") as cluster: ...  # `environment`: variables for the workers"""

    def __init__(self, engine: str, environment: Mapping[str, str] | None = None) -> None:
        self._engine = check_engine(engine)
        if is_private():
            raise UsageError(
                "a private run stays in one process, and Ray keeps data in files: leave out "
                "--engine, or divide the run with --shard"
            )
        self._environment = dict(environment or {})
        self._ray: Any = None

    def __enter__(self) -> "RayCluster":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Workers would otherwise see no GPU if a task asks for none.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # A part that needs more memory than a node has would be tried for ever.
        os.environ.setdefault("RAY_task_oom_retries", str(_RETRIES))
        try:
            import ray
        except ImportError as error:
            raise missing_extra(error) or error from None
        self._ray = ray
        address = self._address()
        try:
            _try_port(address)  # Ray itself would wait for minutes
        except OSError as error:
            raise TargetError(
                f"no Ray cluster responds at {address}: {error.strerror or error}; start one with: "
                "ray start --head, or use this machine: unset RAY_ADDRESS and run ray stop"
            ) from None
        # What Ray says about its workers is not a result: `--json` stays JSON.
        self._stdout = redirect_stdout(sys.stderr)
        self._stdout.__enter__()
        try:
            self._connect()
        except (
            ConnectionError,
            ImportError,
            RuntimeError,
            ValueError,
            ray.exceptions.RayError,
        ) as error:
            self.__exit__()  # what is half open would refuse every later connection
            raise TargetError(
                f"no Ray cluster can be used at {address or 'this machine'}: {_reason(error)}; "
                "start one with: ray start --head, set RAY_AUTH_MODE and the token here as there, "
                "or unset RAY_ADDRESS to use this machine"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()
        self._stdout.__exit__(None, None, None)

    def _connect(self) -> None:
        """To a cluster that runs; if none is named or found, to one that is started for us."""
        options: dict[str, Any] = {
            "runtime_env": {"env_vars": self._environment},
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if self._engine == "ray" and not os.environ.get("RAY_ADDRESS"):
            try:
                self._ray.init(address="auto", **options)
            except ConnectionError:
                self._ray.init(**options, include_dashboard=False)
            return
        address = {} if self._engine == "ray" else {"address": self._engine}
        for tries_left in reversed(range(_CONNECTIONS)):
            try:
                self._ray.init(**address, **options)
                return
            except RuntimeError as error:
                if not tries_left or "Ray client server failed" not in str(error):
                    raise
                self._ray.shutdown()

    def _address(self) -> str:
        """HOST:PORT of the cluster, else that of the last `ray start` here, or empty."""
        chosen = self._engine if self._engine != "ray" else os.environ.get("RAY_ADDRESS", "")
        if not chosen:
            session = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
            with suppress(OSError):
                chosen = read_text_file(session).strip()
        return chosen.removeprefix("ray://")

    @property
    def cpus(self) -> int:
        """Of all nodes."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return int(self._ray.cluster_resources().get("GPU", 0))

    @property
    def nodes(self) -> int:
        """That are alive."""
        return sum(bool(node["Alive"]) for node in self._ray.nodes())

    def share(self, value: object) -> object:
        """A value that all parts use, sent to each node once; passed on as an argument."""
        return self._ray.put(value)

    def map(
        self, function: Callable[..., Any], parts: Iterable[Sequence[object]], *, gpus: int = 0
    ) -> Iterator[tuple[int, Any]]:
        """The place and the result of each part, as they are ready; parts are taken as needed.

        A part whose worker or node is lost is computed by another one. An `AssayError` in a part is
        yielded as its result, so that the others go on.
        """
        remote = self._ray.remote(_call).options(
            name=function.__name__,
            num_cpus=1,
            num_gpus=gpus,
            max_retries=_RETRIES,
            retry_exceptions=False,
        )
        # As an argument: what is in a runtime environment, Ray shows to everybody.
        variables, versions = self.share(_sent_variables()), _versions()
        most = _PARTS_PER_CPU * self.cpus
        waiting: dict[Any, int] = {}
        todo = iter(enumerate(parts))
        failed_checks = 0
        while True:
            while len(waiting) < most and (part := next(todo, None)) is not None:
                place, arguments = part
                waiting[remote.remote(function, variables, versions, *arguments)] = place
            if not waiting:
                return
            try:
                ready, _ = self._ray.wait(
                    list(waiting), num_returns=1, timeout=_SECONDS_UNTIL_CHECKED
                )
            except ConnectionError as error:  # of the client port
                raise _head_lost(error) from None
            if ready:
                failed_checks = 0
                yield waiting.pop(ready[0]), self._result(ready[0])
                continue
            context = self._ray.get_runtime_context() if self._engine == "ray" else None
            try:
                _try_port(context.gcs_address if context else self._address())
                failed_checks = 0
            except OSError as error:
                failed_checks += 1
                if failed_checks == _FAILED_CHECKS:
                    raise _head_lost(error) from None

    def _result(self, reference: object) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, AssayError):
                return cause
            if isinstance(cause, ImportError) or "No module named" in str(cause):
                return TargetError(
                    f"the Ray node {error.ip} lacks a module ({_reason(cause)}); install the same "
                    f"versions there as here: {_versions()}"
                )
            raise
        except errors.RayError as error:
            return TargetError(
                f"a part of the work was lost {_RETRIES + 1} times "
                f"({type(error).__name__}): its worker was killed, or had too little memory"
            )


def _head_lost(error: OSError) -> TargetError:
    return TargetError(
        f"the head of the Ray cluster is gone ({error.strerror or error}): start it again and "
        "repeat the command; what was stored before is kept"
    )


def _sent_variables() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SENT) and name not in _OF_A_MACHINE
    }


def _versions() -> str:
    python = ".".join(map(str, sys.version_info[:2]))
    return f"agent-assay {version('agent-assay')}, Python {python}"


def _reason(error: BaseException) -> str:
    """The first and the last line, since a traceback may be between; all of a short message."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    return " ".join(lines if len(lines) < 10 else dict.fromkeys((lines[0], lines[-1])))


def _call(
    function: Callable[..., Any], variables: Mapping[str, str], versions: str, *arguments: object
) -> Any:
    """On a worker, whose process is this command's alone."""
    if versions != _versions():
        raise TargetError(
            f"the Ray node {socket.gethostname()} has {_versions()}, and this machine has "
            f"{versions}: install the same versions on all nodes"
        )
    os.environ.update(variables)
    return function(*arguments)


def _try_port(address: str) -> None:
    """Raises `OSError` if nothing listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=5).close()
