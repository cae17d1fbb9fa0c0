"""The table of tools: their oldest versions, and the recipes that build them from pinned Go modules.

Versions, flags and traps: toolchain.md §1. A recipe's steps run in order in a new folder, which gets its final name
once all steps and the version check have succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass

from devnet.errors import UnknownTool

__all__ = [
    "RECIPES",
    "TOOLS",
    "Adopt",
    "CopyFromCheckout",
    "CopyFromModule",
    "EmbedSchema",
    "GoBuild",
    "Link",
    "Recipe",
    "ReplaceModule",
    "Step",
    "Tool",
    "UntypedSdk",
    "recipe",
    "tool",
]

KUBERNETES = "1.36.3"
PULUMI = "3.274.1"
PLUGIN = "4.25.0"
KWOK = "0.8.0"
CONTAINERD = "2.3.7"
RUNC = "1.4.4"
TRAEFIK = "3.7.13"
PEBBLE = "2.10.3"


@dataclass(frozen=True)
class GoBuild:
    """`go build` of one main package into `bin/<output>`. `variables` are set by the linker (-X)."""

    package: str
    output: str
    variables: tuple[str, ...] = ()
    tags: str = ""


@dataclass(frozen=True)
class Link:
    """Symbolic links in `bin/` to one program that behaves according to its name."""

    target: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class CopyFromModule:
    """Files of a Go module that the family's go.mod pins."""

    module: str
    pattern: str
    to: str
    executable: bool = False


@dataclass(frozen=True)
class CopyFromCheckout:
    """A file of the repository, by its path under `tools/`, made executable."""

    source: str
    to: str


@dataclass(frozen=True)
class Adopt:
    """The programs of another recipe, as hard links: a program would resolve a symbolic link to its old folder."""

    recipe: str


@dataclass(frozen=True)
class EmbedSchema:
    """The plugin's two generated files, which its module lacks, beside its main.go (toolchain.md §1)."""

    module: str
    version: str


@dataclass(frozen=True)
class UntypedSdk:
    """The plugin's Go SDK without its generated types, in place of `module` (see `untyped`)."""

    module: str


@dataclass(frozen=True)
class ReplaceModule:
    """A subfolder of a module as a separate module in the source folder `to`, which a `replace` in go.mod names.

    The module's own go.mod would raise versions of dependencies and so cause another build of all of them. A go.mod in
    the family's folder `to` is kept; it names Go's version where the module's code needs a newer one than 1.16.
    """

    module: str
    version: str
    folder: str
    to: str


Step = GoBuild | Link | CopyFromModule | CopyFromCheckout | Adopt | EmbedSchema | ReplaceModule | UntypedSdk


@dataclass(frozen=True)
class Recipe:
    """`family` is the folder under `tools/` with go.mod and go.sum; `cpu_seconds` is the cost of an uncached build.

    `cgo`: the build uses a C compiler and libraries of the machine.
    """

    name: str
    family: str
    steps: tuple[Step, ...]
    cpu_seconds: int
    cgo: bool = False


@dataclass(frozen=True)
class Tool:
    """One program. `minimum` is the oldest version accepted from PATH, with `exact` the only one.

    `on_path` is false for programs that are never taken from PATH. `companion` is a program that must be on PATH too.
    """

    name: str
    recipe: str
    version_args: tuple[str, ...] = ("--version",)
    minimum: tuple[int, int, int] | None = None
    exact: bool = False
    on_path: bool = True
    companion: str = ""
    module: str = ""
    """The module in the binary whose version is read, for a program that cannot print its version."""
    plugin: bool = False
    """The version is read by gRPC, because a Pulumi plugin has no --version."""


def _kubernetes_variables() -> tuple[str, ...]:
    major, minor, _ = KUBERNETES.split(".")
    values = {
        "gitVersion": f"v{KUBERNETES}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": f"v{KUBERNETES}",
        "buildDate": "2026-01-01T00:00:00Z",  # constant, so that the same recipe gives the same bytes
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple(f"{package}.{name}={value}" for package in packages for name, value in values.items())


_FOUR = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_NODE_PROGRAMS = ("kubelet", "kube-proxy", "kube-network-policies")
_CONTAINERD = "github.com/containerd/containerd/v2"
_RUNC = "github.com/opencontainers/runc"
_PKG = "github.com/pulumi/pulumi/pkg/v3"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_PLUGIN = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_INGRESS_NGINX = "k8s.io/ingress-nginx"
_LUA = "rootfs/etc/nginx/lua"
_ABSENT_LUA = ("chash", "cookie", "dns/resolver", "global_throttle", "http", "ipmatcher")
"""Libraries of `resty` that Debian lacks and that Ingress-NGINX loads, but does not call for an Ingress of Lessor."""
_TRAEFIK = "github.com/traefik/traefik/v3"
_LEGO = "github.com/go-acme/lego/v5"
_LEGO_FOLDERS = (
    "acme",
    "certcrypto",
    "certificate",
    "challenge",
    "internal",
    "lego",
    "log",
    "platform",
    "registration",
)
"""All that Traefik compiles, except `providers/dns`: `tools/traefik/lego` has a stand-in for it (real-node.md)."""

RECIPES: tuple[Recipe, ...] = (
    Recipe("etcd", "etcd", (GoBuild("go.etcd.io/etcd/server/v3", "etcd"),), 65),
    Recipe(
        "kubernetes",
        "kubernetes",
        (GoBuild(".", "kubernetes", variables=_kubernetes_variables()), Link("kubernetes", _FOUR)),
        480,
    ),
    Recipe(
        "kwok",
        "kwok",
        (GoBuild("sigs.k8s.io/kwok/cmd/kwok", "kwok", variables=(f"sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK}",)),),
        121,
    ),
    Recipe(
        "metallb",
        "metallb",
        (
            GoBuild("go.universe.tf/metallb/controller", "metallb-controller"),
            CopyFromModule("go.universe.tf/metallb", "config/crd/bases/*.yaml", "share/crds"),
        ),
        150,
    ),
    Recipe(
        "pulumi-cli",
        "pulumi",
        (
            GoBuild(
                f"{_PKG}/cmd/pulumi",
                "pulumi",
                variables=(f"{_SDK}/go/common/version.Version=v{PULUMI}",),
                tags="osusergo,grpcnotrace",
            ),
        ),
        336,
    ),
    Recipe(  # a separate recipe, so that a changed language host does not link the CLI's 120 MB again
        "pulumi",
        "pulumi",
        (
            Adopt("pulumi-cli"),
            CopyFromCheckout("langhost/pulumi-language-python", "bin/pulumi-language-python"),
            CopyFromModule(_SDK, "python/cmd/pulumi-language-python-exec", "bin", executable=True),
        ),
        0,
    ),
    Recipe(  # the same modules and flags as the CLI's, so that a build after it compiles these few files only
        "engine",
        "engine",
        (
            GoBuild(
                ".",
                "lessor-engine",
                variables=(f"{_SDK}/go/common/version.Version=v{PULUMI}",),
                tags="osusergo,grpcnotrace",
            ),
        ),
        30,
    ),
    Recipe(
        "pulumi-kubernetes",
        "pulumi-kubernetes",
        (
            EmbedSchema(_PLUGIN, PLUGIN),
            UntypedSdk("github.com/pulumi/pulumi-kubernetes/sdk/v4"),
            GoBuild(".", "pulumi-resource-kubernetes", variables=(f"{_PLUGIN}/pkg/version.Version={PLUGIN}",)),
        ),
        200,
    ),
    Recipe(
        "node",
        "node",
        (
            ReplaceModule("github.com/cloudnativelabs/kube-router/v2", "v2.1.0", "pkg", "kube-router"),
            GoBuild(".", "node", variables=_kubernetes_variables()),
            Link("node", _NODE_PROGRAMS),
            GoBuild("./edge", "edge"),
        ),
        71,
    ),
    Recipe(
        "containerd",
        "containerd",
        tuple(
            GoBuild(
                f"{_CONTAINERD}/cmd/{name}",
                name,
                variables=(f"{_CONTAINERD}/version.Version={CONTAINERD}",),
                tags="no_btrfs,no_devmapper,no_zfs,no_aufs",
            )
            for name in ("containerd", "containerd-shim-runc-v2")
        ),
        121,
    ),
    Recipe(
        "runc",
        "runc",
        (GoBuild(_RUNC, "runc", variables=(f"main.version={RUNC}",), tags="seccomp"),),
        36,
        cgo=True,
    ),
    Recipe("coredns", "coredns", (GoBuild(".", "coredns"),), 151),
    Recipe("metallb-speaker", "metallb-speaker", (GoBuild("go.universe.tf/metallb/speaker", "metallb-speaker"),), 16),
    Recipe("standin", "standin", (GoBuild(".", "standin"),), 2),
    Recipe(
        "ingress-nginx",
        "ingress-nginx",
        (
            GoBuild(f"{_INGRESS_NGINX}/cmd/nginx", "nginx-ingress-controller"),
            CopyFromModule(_INGRESS_NGINX, "rootfs/etc/nginx/template/nginx.tmpl", "share/template"),
            CopyFromModule(_INGRESS_NGINX, "rootfs/etc/nginx/nginx.conf", "share"),
            *(
                CopyFromModule(_INGRESS_NGINX, f"{_LUA}{sub}/*.lua", f"share/lua{sub}")
                for sub in ("", "/balancer", "/util")
            ),
            *(
                CopyFromCheckout(f"ingress-nginx/resty/{name}.lua", f"share/lua/resty/{name}.lua")
                for name in ("roundrobin", "lock")
            ),
            *(
                CopyFromCheckout("ingress-nginx/resty/absent.lua", f"share/lua/resty/{name}.lua")
                for name in _ABSENT_LUA
            ),
        ),
        180,
    ),
    Recipe(
        "traefik",
        "traefik",
        (
            *(ReplaceModule(_LEGO, "v5.4.1", folder, "lego") for folder in _LEGO_FOLDERS),
            GoBuild(f"{_TRAEFIK}/cmd/traefik", "traefik", variables=(f"{_TRAEFIK}/pkg/version.Version={TRAEFIK}",)),
            CopyFromModule("sigs.k8s.io/gateway-api", "config/crd/standard/*.yaml", "share/crds"),
        ),
        300,
    ),
    Recipe(  # a CA of tests: the small ACME server of Let's Encrypt
        "pebble",
        "pebble",
        (GoBuild("github.com/letsencrypt/pebble/v2/cmd/pebble", "pebble", variables=(f"main.version=v{PEBBLE}",)),),
        10,
    ),
)

TOOLS: tuple[Tool, ...] = (
    Tool("etcd", "etcd", minimum=(3, 6, 0)),
    Tool("kube-apiserver", "kubernetes", minimum=(1, 34, 0)),
    Tool("kube-controller-manager", "kubernetes", minimum=(1, 34, 0)),
    Tool("kube-scheduler", "kubernetes", minimum=(1, 34, 0)),
    Tool("kubectl", "kubernetes", version_args=("version", "--client"), minimum=(1, 35, 0)),  # skew policy: one minor
    Tool("kwok", "kwok", minimum=(0, 8, 0)),
    Tool("metallb-controller", "metallb", on_path=False, module="go.universe.tf/metallb"),
    # The SDK's private server that the engine uses is tested with this generation (toolchain.md §3).
    Tool("pulumi", "pulumi", version_args=("version",), minimum=(3, 272, 0), companion="pulumi-language-python"),
    Tool("pulumi-language-python", "pulumi", version_args=(), companion="pulumi"),
    Tool("lessor-engine", "engine", on_path=False, module=_PKG),
    Tool("pulumi-resource-kubernetes", "pulumi-kubernetes", minimum=(4, 25, 0), exact=True, plugin=True),
    # The real node (real-node.md): never taken from PATH, because flags and defects belong to these versions.
    Tool("kubelet", "node", on_path=False),
    Tool("kube-proxy", "node", on_path=False),
    Tool("kube-network-policies", "node", version_args=(), on_path=False),
    Tool("edge", "node", version_args=(), on_path=False),
    Tool("containerd", "containerd", on_path=False),
    Tool("containerd-shim-runc-v2", "containerd", version_args=("-v",), on_path=False),
    Tool("runc", "runc", on_path=False),
    Tool("coredns", "coredns", version_args=("-version",), on_path=False),
    Tool("metallb-speaker", "metallb-speaker", on_path=False, module="go.universe.tf/metallb"),
    Tool("standin", "standin", version_args=(), on_path=False),
    Tool("nginx-ingress-controller", "ingress-nginx", version_args=(), on_path=False),
    Tool("traefik", "traefik", version_args=("version",), on_path=False),
    Tool("pebble", "pebble", version_args=("-version",), on_path=False),
)


def recipe(name: str) -> Recipe:
    """The recipe of this name. A KeyError is a defect of the table."""
    return {r.name: r for r in RECIPES}[name]


def tool(name: str) -> Tool:
    """The tool of this name. Raises `UnknownTool`."""
    for candidate in TOOLS:
        if candidate.name == name:
            return candidate
    raise UnknownTool(name, [t.name for t in TOOLS])
