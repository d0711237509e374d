"""How a Qdrant cluster keeps an index: shards, copies, compression; and what of it is missing."""

import logging
import os
from dataclasses import dataclass
from typing import Literal, cast, get_args

from qdrant_client import QdrantClient, models

from assay.errors import SearchError, UsageError
from assay.search.qdrant_servers import ask_each
from assay.search.store import DENSE

Quantization = Literal["none", "int8", "binary"]

RESCORED = models.SearchParams(
    quantization=models.QuantizationSearchParams(rescore=True, oversampling=3.0)
)
"""Where vectors are compressed, three times as many are found by these and scored by the whole
ones; without effect on collections that are not compressed."""

_log = logging.getLogger(__name__)
_ACTIVE = models.ReplicaState.ACTIVE


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How a new collection is kept; what is None is left to the server.

    Parameters:
        shard_number: in how many parts the points are divided; QDRANT_SHARD_NUMBER.
        replication_factor: how many nodes hold each part; QDRANT_REPLICATION_FACTOR.
        write_consistency_factor: how many of them must have stored a point before it counts as
            written; QDRANT_WRITE_CONSISTENCY_FACTOR.
        quantization: keep int8 or binary copies of the vectors in memory, a quarter or a 32nd of
            their size, to find candidates by; QDRANT_QUANTIZATION.
        on_disk: keep whole vectors, the words of BM25 and texts on the disk instead of in memory;
            QDRANT_ON_DISK.
    """

    shard_number: int | None = None
    replication_factor: int | None = None
    write_consistency_factor: int | None = None
    quantization: Quantization = "none"
    on_disk: bool = False

    def __post_init__(self) -> None:
        if self.quantization not in get_args(Quantization):
            raise UsageError(
                f"QDRANT_QUANTIZATION must be one of {', '.join(get_args(Quantization))}, got "
                f"{self.quantization!r}"
            )

    @classmethod
    def from_environment(cls) -> "ClusterSettings":
        """Raises `UsageError` for a value that a setting does not take."""
        given = os.environ.get("QDRANT_ON_DISK", "").strip().lower()
        if given not in ("", "0", "1", "false", "true", "no", "yes"):
            raise UsageError(f"QDRANT_ON_DISK must be true or false, got {given!r}")
        return cls(
            _positive("QDRANT_SHARD_NUMBER"),
            _positive("QDRANT_REPLICATION_FACTOR"),
            _positive("QDRANT_WRITE_CONSISTENCY_FACTOR"),
            cast(Quantization, os.environ.get("QDRANT_QUANTIZATION") or "none"),
            given in ("1", "true", "yes"),
        )

    def warn_of_others(self, client: QdrantClient, collection: str, where: str) -> None:
        """A collection that exists keeps its settings: tell which are not those asked for."""
        if self == ClusterSettings():
            return
        params = client.get_collection(collection).config.params
        dense = cast(dict[str, models.VectorParams], params.vectors)[DENSE]
        scalar = isinstance(dense.quantization_config, models.ScalarQuantization)
        kept = {
            "shard number": (self.shard_number, params.shard_number),
            "replication factor": (self.replication_factor, params.replication_factor),
            "write consistency": (self.write_consistency_factor, params.write_consistency_factor),
            "quantization": (
                self.quantization if self.quantization != "none" else None,
                "int8" if scalar else "binary" if dense.quantization_config else "none",
            ),
            "vectors on disk": (self.on_disk or None, bool(dense.on_disk)),
        }
        others = [
            f"{name} {has} and not {wanted}"
            for name, (wanted, has) in kept.items()
            if wanted is not None and wanted != has
        ]
        if others:
            _log.warning(
                "the index at %s has %s: such settings count for a new index; set COLLECTION_NAME "
                "to build one beside it",
                where,
                ", ".join(others),
            )

    def refuse_too_few_nodes(self, client: QdrantClient, url: str) -> None:
        """Qdrant would make fewer copies, and none later when the other nodes are there."""
        wanted = self.replication_factor or 1
        status = client.cluster_status() if wanted > 1 else None
        nodes = len(status.peers) if isinstance(status, models.ClusterStatusOneOf1) else 1
        if nodes < wanted:
            raise SearchError(
                f"a replication factor of {wanted} needs {wanted} nodes, and Qdrant at {url} has "
                f"{nodes}: start the others first, because no copies are added later, or ask for "
                "fewer"
            )

    def quantization_config(self) -> models.QuantizationConfig | None:
        """As Qdrant takes it; the compressed vectors stay in memory."""
        if self.quantization == "int8":
            scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
            return models.ScalarQuantization(scalar=scalar)
        if self.quantization == "binary":
            binary = models.BinaryQuantizationConfig(always_ram=True)
            return models.BinaryQuantization(binary=binary)
        return None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster holds of a collection.

    `short` are the shards of which fewer copies can be reached than the collection asks for, `lost`
    those of them that have none.
    """

    nodes: int
    unreachable: tuple[str, ...]
    shards: int
    copies: int
    short: int
    lost: int

    @property
    def warning(self) -> str | None:
        """What is missing, and what to do; None if nothing is."""
        if not (self.unreachable or self.short):
            return None
        words = []
        if self.unreachable:
            words.append(
                f"{len(self.unreachable)} of {self.nodes} nodes of the Qdrant cluster cannot be "
                f"reached ({', '.join(self.unreachable)})"
            )
        if self.short:
            words.append(
                f"{self.short} of {self.shards} shards have fewer than {self.copies} copies"
            )
        if self.lost:
            words.append(f"{self.lost} have none, so searches fail")
        if self.unreachable:
            return "; ".join(words) + ". Start the missing nodes: they catch up by themselves"
        return "; ".join(words) + (
            ". Nodes that were away are catching up; if it stays so, a node was removed: place its "
            "shards on others with Qdrant's replicate_shard"
        )


def read_state(client: QdrantClient, collection: str) -> ClusterState | None:
    """The state of a collection in its cluster; None for a server that is alone."""
    answers = ask_each(client, "cluster_status")
    nodes = [each for each in answers if isinstance(each, models.ClusterStatusOneOf1)]
    if not nodes:
        return None
    peers = {int(peer): info.uri for peer, info in nodes[0].peers.items()}
    silent = peers.keys() - {each.peer_id for each in nodes}
    # Only a node that leads notices soon that another one is away. We notice as well, where it is
    # one of those in QDRANT_URL.
    away = {uri for each in nodes for uri, sent in each.message_send_failures.items() if sent.count}
    if answers.count(None) >= len(silent):
        away |= {peers[peer] for peer in silent}
    info = client.collection_cluster_info(collection)
    copies: dict[int, int] = dict.fromkeys(range(info.shard_count), 0)
    for local in info.local_shards:
        copies[local.shard_id] = copies.get(local.shard_id, 0) + (local.state == _ACTIVE)
    for remote in info.remote_shards:
        reached = remote.state == _ACTIVE and peers.get(remote.peer_id) not in away
        copies[remote.shard_id] = copies.get(remote.shard_id, 0) + reached
    wanted = client.get_collection(collection).config.params.replication_factor or 1
    return ClusterState(
        nodes=len(peers),
        unreachable=tuple(sorted(uri.rstrip("/") for uri in away if uri in peers.values())),
        shards=len(copies),
        copies=wanted,
        short=sum(count < wanted for count in copies.values()),
        lost=sum(count == 0 for count in copies.values()),
    )


def _positive(name: str) -> int | None:
    value = os.environ.get(name, "")
    if not value:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"{name} must be an integer >= 1, got {value!r}")
    return int(value)
