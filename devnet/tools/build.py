"""Builds of recipes. A build runs in a temporary folder, which is checked and then renamed to its final name."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, assert_never

from devnet.children import cpu_seconds, start_bound
from devnet.errors import BuildFailed, GoMissing
from devnet.tools.cache import Cache, cache_errors, exclusive, family_files, recipe_hash
from devnet.tools.modules import modules_fetched
from devnet.tools.progress import Meter, Progress
from devnet.tools.recipes import (
    TOOLS,
    Adopt,
    CopyFromCheckout,
    CopyFromModule,
    EmbedSchema,
    GoBuild,
    Link,
    Recipe,
    ReplaceModule,
    Step,
    UntypedSdk,
    recipe,
)
from devnet.tools.untyped import SdkChanged, copy_untyped
from devnet.tools.versions import parse, probe, shown

__all__ = ["Builder", "go_environment"]

_GO_MINIMUM = (1, 26, 0)
_PROGRESS_INTERVAL_S = 1.0
_STAMP = "versions.json"


@dataclasses.dataclass(frozen=True)
class Builder:
    """Builds recipes from `root` (the folder `tools/`) into `cache`.

    `throw_away`: use a separate Go build cache for each recipe and delete it afterwards. The shared one grows to about
    12 GB. The module cache (8.7 GB) stays in both cases; `go clean -modcache` removes it.
    """

    root: Path
    cache: Cache
    progress: Progress
    throw_away: bool = False
    meter: Meter = dataclasses.field(default_factory=Meter)

    def key(self, chosen: Recipe) -> str:
        """`<name>-<hash of the recipe>`."""
        return f"{chosen.name}-{recipe_hash(chosen, self.root)}"

    def folder(self, chosen: Recipe) -> Path:
        """The folder of the finished build, which need not exist: `bin/`, perhaps `share/`, and `versions.json`."""
        return self.cache.entry(self.key(chosen))

    def versions(self, chosen: Recipe) -> Mapping[str, str]:
        """Program → its version as checked after the build; empty if the recipe is not built."""
        try:
            return dict(json.loads((self.folder(chosen) / _STAMP).read_bytes()))
        except (OSError, ValueError, TypeError):
            return {}

    def complete(self, chosen: Recipe) -> bool:
        """Whether the finished build is whole. A crash of the machine or a clean-up of the disk can empty or remove
        files of a finished build.
        """
        folder = self.folder(chosen)
        return all(_has_content(folder / path) for path in (_STAMP, *_made_files(chosen)))

    def ensure(self, chosen: Recipe) -> Path:
        """The folder of the finished build, built now if missing or damaged. Raises `BuildFailed`, `CacheUnusable` or
        `GoMissing`.
        """
        done = self.folder(chosen)
        if self.complete(chosen):
            return done
        for adopted in _adopted(chosen):
            self.ensure(adopted)
        with exclusive(self.cache.lock(self.key(chosen)), what=chosen.name, line=self.progress.line):
            if not self.complete(chosen):
                with cache_errors(self.cache):
                    self._build(chosen, done)
        self.meter.drop(chosen.name)  # another process may have built it
        return done

    def ensure_all(self, wanted: Sequence[Recipe]) -> None:
        """Build each recipe in turn; the modules of later recipes are downloaded while the first one is compiled."""
        every = [each for chosen in wanted for each in (*_adopted(chosen), chosen)]
        missing = [each for each in every if not self.complete(each)]
        if not missing:
            return
        require_go()
        self.meter.plan({each.name: each.cpu_seconds for each in missing})
        with modules_fetched(missing[1:], root=self.root, env=go_environment()):
            for each in wanted:
                self.ensure(each)

    def _build(self, chosen: Recipe, done: Path) -> None:
        require_go()
        partial = done.with_name(done.name + ".partial")
        for damaged in (partial, done):  # left by a killed build, or damaged; the lock is held, so no build uses them
            _remove(damaged)
        log = self.cache.log(done.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        self.meter.begin(chosen.name, estimate=chosen.cpu_seconds)
        work = _Work(chosen, self, partial, log)
        self.progress.line(f"{chosen.name}: building, about {chosen.cpu_seconds} CPU seconds from nothing; log {log}")
        try:
            work.run()
            work.check()
        except BaseException:
            _remove(partial)
            raise
        partial.rename(done)
        work.forget_go_cache()
        used, elapsed = work.cpu_seconds(), self.meter.elapsed
        self.meter.use(used)
        self.meter.finish()
        self.progress.line(f"{chosen.name}: built in {elapsed:.0f} s ({used:.0f} CPU seconds)")


def _made_files(chosen: Recipe) -> Iterator[str]:
    """Paths below the folder of a finished build that its steps make."""
    for step in chosen.steps:
        match step:
            case GoBuild():
                yield f"bin/{step.output}"
            case Link():
                yield from (f"bin/{name}" for name in step.names)
            case CopyFromCheckout():
                yield step.to


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _remove(folder: Path) -> None:
    """Remove the folder with all read-only folders in it, such as copies from Go's module cache; it need not exist."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def _adopted(chosen: Recipe) -> Iterator[Recipe]:
    for step in chosen.steps:
        if isinstance(step, Adopt):
            yield recipe(step.recipe)


def require_go() -> None:
    """Raise `GoMissing` unless PATH has a Go new enough for every go.mod (GOTOOLCHAIN=local downloads no other)."""
    try:
        answer = subprocess.run(
            ["go", "env", "GOVERSION"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        answer = ""
    found = parse(answer.replace("go", "", 1))
    if found is None or found < _GO_MINIMUM:
        raise GoMissing(shown(found) or "none", shown(_GO_MINIMUM))


class _Work:
    """One running build."""

    def __init__(self, chosen: Recipe, builder: Builder, partial: Path, log: Path) -> None:
        self.recipe, self.builder, self.partial, self.log = chosen, builder, partial, log
        self.source = partial / "source"
        self.go_temporary = partial / "tmp"
        self.go_cache = builder.cache.root / "go-build" / partial.name
        self._before = _children_cpu_seconds()

    def cpu_seconds(self, running: int | None = None) -> float:
        """CPU seconds of this build so far; `running` is a process that has not ended yet."""
        return _children_cpu_seconds() - self._before + (cpu_seconds(running) if running else 0.0)

    def run(self) -> None:
        """Run all steps in a copy of the family's folder, so that the checkout stays unchanged."""
        (self.partial / "bin").mkdir(parents=True)
        self.source.mkdir()
        self.go_temporary.mkdir()
        family = self.builder.root / self.recipe.family
        for path in family_files(family):
            target = self.source / path.relative_to(family)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        with self.log.open("wb") as output:
            for step in self.recipe.steps:
                self._step(step, output)
        _remove(self.source)
        _remove(self.go_temporary)

    def check(self) -> None:
        """Read the version of every program and store them. Raises `BuildFailed` for a missing or old version."""
        versions = {}
        for tool in TOOLS:
            program = self.partial / "bin" / tool.name
            if not program.exists() or not tool.version_args:
                continue
            found = probe(tool, program)
            if found is None or (tool.recipe == self.recipe.name and tool.minimum and found < tool.minimum):
                raise self._failed(f"{tool.name} reports version {shown(found) or 'nothing'}")
            versions[tool.name] = shown(found)
        (self.partial / _STAMP).write_text(json.dumps(versions))

    def forget_go_cache(self) -> None:
        """Delete the throw-away cache. A failed build keeps it, so that the next build can continue."""
        shutil.rmtree(self.go_cache, ignore_errors=True)

    def _failed(self, problem: str) -> BuildFailed:
        return BuildFailed(self.recipe.name, log=self.log, problem=problem)

    def _step(self, step: Step, output: IO[bytes]) -> None:
        match step:
            case GoBuild():
                self._go(_go_build(step, self.partial / "bin" / step.output), output)
            case Link():
                for name in step.names:
                    (self.partial / "bin" / name).symlink_to(step.target)
            case CopyFromModule():
                self._copy_from_module(step, output)
            case CopyFromCheckout():
                target = self.partial / step.to
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.builder.root / step.source, target)
                target.chmod(0o755)
            case Adopt():
                for program in (self.builder.folder(recipe(step.recipe)) / "bin").iterdir():
                    (self.partial / "bin" / program.name).hardlink_to(program)
            case EmbedSchema():
                self._embed_schema(step, output)
            case UntypedSdk():
                self._untyped_sdk(step, output)
            case ReplaceModule():
                self._replace_module(step, output)
            case _:
                assert_never(step)

    def _copy_from_module(self, step: CopyFromModule, output: IO[bytes]) -> None:
        target = self.partial / step.to
        target.mkdir(parents=True, exist_ok=True)
        found = sorted(self._module(step.module, output).glob(step.pattern))
        if not found:
            raise self._failed(f"module {step.module} has no {step.pattern}")
        for path in found:
            shutil.copyfile(path, target / path.name)
            if step.executable:
                (target / path.name).chmod(0o755)

    def _embed_schema(self, step: EmbedSchema, output: IO[bytes]) -> None:
        folder = self._module(step.module, output) / "cmd" / "pulumi-resource-kubernetes"
        for name, extra in (("schema.json", {"version": step.version}), ("terraform-mapping.json", {})):
            content = json.loads((folder / name).read_bytes()) | extra
            (self.source / name).write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False))

    def _untyped_sdk(self, step: UntypedSdk, output: IO[bytes]) -> None:
        """Replace the module by a folder in the copy of the family."""
        try:
            copy_untyped(self._module(step.module, output), self.source / "sdk")
        except SdkChanged as changed:
            raise self._failed(f"{step.module}: {changed}") from None
        with (self.source / "go.mod").open("a") as file:
            file.write(f"\nreplace {step.module} => ./sdk\n")

    def _replace_module(self, step: ReplaceModule, output: IO[bytes]) -> None:
        target = self.source / step.to
        folder = self._module(f"{step.module}@{step.version}", output)
        shutil.copytree(folder / step.folder, target / step.folder, copy_function=shutil.copyfile)
        for made in (target, *(path for path in target.rglob("*") if path.is_dir())):
            made.chmod(0o755)  # folders of the module cache are read-only, so that rmtree fails
        if not (target / "go.mod").exists():
            (target / "go.mod").write_text(f"module {step.module}\n")

    def _module(self, module: str, output: IO[bytes]) -> Path:
        """The folder of a pinned module in Go's module cache, downloaded if missing."""
        answer = self.partial / "module.json"
        with answer.open("wb") as file:
            self._go(["go", "mod", "download", "-json", module], file)
        output.write(answer.read_bytes())
        folder = json.loads(answer.read_bytes()).get("Dir")
        answer.unlink()
        if not folder:
            raise self._failed(f"go mod download of {module} named no folder")
        return Path(folder)

    def _go(self, argv: Sequence[str], output: IO[bytes]) -> None:
        process = start_bound(argv, output=output, env=self._environment(), cwd=self.source)
        try:
            status = self._wait(process)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if status:
            raise self._failed(f"`{' '.join(argv[:2])}` ended with {status}")

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        while True:
            try:
                return process.wait(timeout=_PROGRESS_INTERVAL_S)
            except subprocess.TimeoutExpired:
                self.builder.meter.use(self.cpu_seconds(process.pid))
                self.builder.progress.live(self.builder.meter.status())

    def _environment(self) -> dict[str, str]:
        own = {"GOCACHE": str(self.go_cache)} if self.builder.throw_away else {}
        own["GOTMPDIR"] = str(
            self.go_temporary
        )  # a killed Go leaves up to gigabytes there, which the next build removes
        return go_environment() | own | ({"CGO_ENABLED": "1"} if self.recipe.cgo else {})


def go_environment() -> dict[str, str]:
    """The environment of every `go` command."""
    own = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    return {**os.environ, **own}


def _children_cpu_seconds() -> float:
    """CPU seconds of all ended children of this process and of their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _go_build(step: GoBuild, target: Path) -> list[str]:
    linker = " ".join(["-s", "-w", *(f"-X {variable}" for variable in step.variables)])
    tags = ["-tags", step.tags] if step.tags else []
    compiler = ["-gcflags=all=-dwarf=false"]  # the linker strips it anyway (-s -w); saves 5 to 8 % of the CPU seconds
    flags = ["-mod=readonly", "-trimpath", *compiler, *tags, "-ldflags", linker]
    return ["go", "build", *flags, "-o", str(target), step.package]
