"""Writes what the images consist of: an SBOM (CycloneDX, JSON) and a list of licenses.

    python scripts/sbom.py [--out build]

Names, versions and hashes come from `locks/image.lock`, licenses from the installed packages. A
package that is not installed here, such as one for Windows, is listed without its license.
"""

import argparse
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNKNOWN = "unknown"

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CLASSIFIER = "License :: OSI Approved :: "
_SHORT = 60


@dataclass(frozen=True)
class Package:
    """One locked package."""

    name: str
    version: str
    hashes: tuple[str, ...]
    license: str


def locked_packages(lock: Path) -> list[Package]:
    """The packages of a lock file, by name."""
    found: dict[tuple[str, str], list[str]] = {}
    hashes: list[str] = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if pin := _PIN.match(line):
            hashes = found.setdefault((pin["name"].lower(), pin["version"]), [])
        hashes += _HASH.findall(line)
    return [
        Package(name, pinned, tuple(sorted(set(digests))), license_of(name))
        for (name, pinned), digests in sorted(found.items())
    ]


def embedding_model() -> Package:
    """The package of this repository that no lock has, with the hash of its model."""
    folder = ROOT / "packages" / "agent-assay-minilm"
    about = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with (folder / "src" / "agent_assay_minilm" / "model.onnx").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Package(about["name"], about["version"], (digest,), about["license"])


def license_of(name: str) -> str:
    """What an installed package says about its license, shortest form first."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return UNKNOWN
    return next(_licenses(about), UNKNOWN)


def _licenses(about: PackageMetadata) -> Iterator[str]:
    fields = about.json
    if expression := fields.get("license_expression"):
        yield str(expression)
    plain = str(fields.get("license") or "").strip()
    if plain and len(plain) <= _SHORT and "\n" not in plain and plain.upper() != "UNKNOWN":
        yield plain
    names = [
        str(each).removeprefix(_CLASSIFIER)
        for each in fields.get("classifier", [])
        if str(each).startswith(_CLASSIFIER)
    ]
    if names:
        yield " OR ".join(names)
    if plain:  # the whole text: its first line names it
        yield plain.splitlines()[0][:_SHORT]


def bill_of_materials(packages: list[Package]) -> dict[str, object]:
    """The document, without a time or a random number: the same lock gives the same bytes."""
    own = version("agent-assay")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "agent-assay",
                "name": "agent-assay",
                "version": own,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": f"{each.name}@{each.version}",
                "name": each.name,
                "version": each.version,
                "purl": f"pkg:pypi/{each.name}@{each.version}",
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in each.hashes],
                "licenses": [{"license": {"name": each.license}}],
            }
            for each in packages
        ],
        "dependencies": [
            {
                "ref": "agent-assay",
                "dependsOn": [f"{each.name}@{each.version}" for each in packages],
            }
        ],
    }


def license_list(packages: list[Package]) -> str:
    """A table for people, as Markdown."""
    rows = [f"| {each.name} | {each.version} | {each.license} |" for each in packages]
    head = ["# Licenses", "", "| package | version | license |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the SBOM and the list of licenses.")
    parser.add_argument("--out", type=Path, default=ROOT / "build")
    out: Path = parser.parse_args().out
    packages = [embedding_model(), *locked_packages(ROOT / "locks/image.lock")]
    out.mkdir(parents=True, exist_ok=True)
    document = json.dumps(bill_of_materials(packages), indent=1)
    (out / "sbom.cdx.json").write_text(document + "\n", encoding="utf-8")
    (out / "licenses.md").write_text(license_list(packages), encoding="utf-8")
    print(f"{len(packages)} packages in {out / 'sbom.cdx.json'} and {out / 'licenses.md'}")


if __name__ == "__main__":
    main()
