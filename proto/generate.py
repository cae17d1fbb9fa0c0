"""Compiles `proto/**/*.proto` into the importable packages `akash` and `k8s`.

Only the files below `proto/` are compiled. Their imports (`cosmos/…`, `gogoproto/…`) come as descriptors from cosmpy's
modules, so that both share one class for each message: protobuf refuses two copies of a message in one process.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["generate"]

_PACKAGES = ("akash", "k8s")
_IMPORT = re.compile(r'^import "([^"]+)";', re.MULTILINE)
_INIT = '''"""Generated from proto/: do not edit. cosmpy's message modules must be importable first."""

import cosmpy.protos  # noqa: F401
'''


def generate(source_dir: Path, output_dir: Path) -> bool:
    """Write `akash/` and `k8s/` below `output_dir`; False if they are up to date.

    A file lock makes concurrent calls safe. Each package is built in another folder and renamed into place, so that no
    process reads a partial one.
    Raises `RuntimeError` with protoc's exit code if a source does not compile; protoc prints the error.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    with _locked(output_dir.parent / f".{output_dir.name}.lock"):
        wanted, stamp = _digest(source_dir), output_dir / ".digest"
        complete = all((output_dir / name).is_dir() for name in _PACKAGES)
        if complete and stamp.is_file() and stamp.read_text() == wanted:
            return False
        _build(source_dir, output_dir)
        stamp.write_text(wanted)
        return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(source_dir: Path) -> str:
    """The hash of the output's inputs: sources, this file, and the versions of the compiler and of cosmpy."""
    digest = hashlib.sha256()
    for path in [Path(__file__), *_sources(source_dir)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(f"{version('grpcio-tools')} {version('cosmpy')}".encode())
    return digest.hexdigest()


def _sources(source_dir: Path) -> list[Path]:
    return sorted(source_dir.rglob("*.proto"))


def _build(source_dir: Path, output_dir: Path) -> None:
    with tempfile.TemporaryDirectory(dir=output_dir.parent, prefix=".proto-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _run_protoc(source_dir, made, Path(scratch) / "imported.binpb")
        _tidy(made)
        for name in _PACKAGES:
            _replace(made / name, output_dir / name, Path(scratch) / f"old-{name}")


def _run_protoc(source_dir: Path, made: Path, descriptors: Path) -> None:
    from grpc_tools import protoc  # noqa: PLC0415 - a build requirement, absent at run time

    sources = _sources(source_dir)
    descriptors.write_bytes(_imported_descriptors(source_dir, sources))
    arguments = [f"--proto_path={source_dir}", f"--descriptor_set_in={descriptors}"]
    arguments += [f"--python_out={made}", f"--pyi_out={made}"]
    names = [path.relative_to(source_dir).as_posix() for path in sources]
    code = protoc.main(["protoc", *arguments, *names])
    with_services = [name for path, name in zip(sources, names, strict=True) if "\nservice " in path.read_text()]
    code = code or protoc.main(["protoc", *arguments[:2], f"--grpc_python_out={made}", *with_services])
    if code:
        raise RuntimeError(f"protoc ended with {code} while compiling {source_dir}; its messages are above")


def _imported_descriptors(source_dir: Path, sources: list[Path]) -> bytes:
    """A FileDescriptorSet of everything outside `source_dir` that the sources import, dependencies first."""
    import cosmpy.protos  # noqa: F401, PLC0415 - puts its folder on sys.path
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415

    found: dict[str, Any] = {}
    for name in sorted({name for path in sources for name in _IMPORT.findall(path.read_text())}):
        if not (source_dir / name).exists():
            _collect(importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR, found)
    result = FileDescriptorSet()
    for descriptor in found.values():
        descriptor.CopyToProto(result.file.add())
    return result.SerializeToString()


def _collect(descriptor: Any, found: dict[str, Any]) -> None:
    for dependency in descriptor.dependencies:
        _collect(dependency, found)
    found.setdefault(descriptor.name, descriptor)


def _tidy(made: Path) -> None:
    """Make the folders packages; the two top-level packages import cosmpy's modules first."""
    for name in _PACKAGES:
        for folder in [made / name, *(path for path in (made / name).rglob("*") if path.is_dir())]:
            (folder / "__init__.py").write_text(_INIT if folder.parent == made else "")
        (made / name / "py.typed").touch()


def _replace(new: Path, target: Path, old: Path) -> None:
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    root = Path(__file__).resolve().parent
    generate(root, Path(sys.argv[1]) if len(sys.argv) > 1 else root.parent / "build" / "proto")
