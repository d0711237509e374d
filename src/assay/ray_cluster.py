"""Work on a Ray cluster: one function over many parts, those of lost workers once more.

It is the cluster at RAY_ADDRESS, one on this machine, or one for the time of the command.
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
# Variables that begin so are the same on a worker as here.
_SENT = (
    *("ASSAY_", "QDRANT_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "RAG_EVAL_", "COLLECTION_NAME"),
    *("AGENT_TOKEN", "MCP_SERVER_TOKEN", "HF_TOKEN", "HF_ENDPOINT"),
)
_OF_A_MACHINE = ("ASSAY_CACHE", "ASSAY_OUT", "ASSAY_THREADS", "QDRANT_PATH")
# In flight at once: enough that no worker waits, few enough that their results fit in memory.
_PARTS_PER_CPU = 2


class RayCluster:
    """with RayCluster() as cluster: ...  # `environment`: more variables for the workers"""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        if is_private():
            raise UsageError(
                "a private run stays in one process, and Ray keeps data in files: leave out "
                "--engine, or divide the run with --shard"
            )
        # With the paths of this process, a worker finds a `python:` target where it does.
        paths = filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH")))
        self._environment = {"PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
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
        address = os.environ.get("RAY_ADDRESS", "").removeprefix("ray://")
        if not address:  # that of the last `ray start` here
            session = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
            with suppress(OSError):
                address = read_text_file(session).strip()
        host, _, port = address.rpartition(":")
        # What Ray says about its workers is not a result: `--json` stays JSON.
        self._stdout = redirect_stdout(sys.stderr)
        self._stdout.__enter__()
        try:
            if host and port.isdecimal():  # Ray itself would wait for minutes
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(
                runtime_env={"env_vars": self._environment},
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if address else {"include_dashboard": False}),
            )
        except (OSError, ImportError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            self.__exit__()  # what is half open would refuse every later connection
            raise TargetError(
                f"no Ray cluster responds at {address or 'this machine'}: {_reason(error)}; start "
                "one with: ray start --head, set RAY_AUTH_MODE and the token here as there, or use "
                "this machine: unset RAY_ADDRESS and run ray stop"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()
        self._stdout.__exit__(None, None, None)

    def count(self, resource: str) -> int:
        """The total of `CPU` or `GPU` over all nodes."""
        return int(self._ray.cluster_resources().get(resource, 0))

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
        sent = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_SENT) and name not in _OF_A_MACHINE
        }
        variables, versions = self.share(sent), _versions()
        most = _PARTS_PER_CPU * max(1, self.count("CPU"))
        waiting: dict[Any, int] = {}
        todo = iter(enumerate(parts))
        while True:
            while len(waiting) < most and (part := next(todo, None)) is not None:
                place, arguments = part
                waiting[remote.remote(function, variables, versions, *arguments)] = place
            if not waiting:
                return
            try:
                [done], _ = self._ray.wait(list(waiting), num_returns=1)
            except OSError as error:  # of a client's connection
                raise TargetError(
                    f"the head of the Ray cluster is gone ({error.strerror or error}): start it "
                    "again and repeat the command; what was stored before is kept"
                ) from None
            yield waiting.pop(done), self._result(done)

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
