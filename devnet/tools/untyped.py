"""The Kubernetes plugin without the types of its Go SDK, which would double the time to build all tools.

The plugin compiles the whole Go SDK (67 packages of generated types) for one switch, `RegisterResource` in `yaml/v2`,
which registers the children of its component resources (charts, YAML and Kustomize folders): each case has its own Go
type, which nothing uses. The replacement registers every child as the switch's default case does, under the same
token as before.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

__all__ = ["PACKAGES", "SdkChanged", "copy_untyped", "register_as_default"]

PACKAGES = (".", "apiextensions", "helm/v4", "meta/v1", "utilities", "yaml/v2")
"""The packages of `go/kubernetes` that the plugin needs without the switch."""
_FOLDER = Path("go") / "kubernetes"
_CASE = re.compile(r'case "([^"]+)":\n\t\tvar res [^\n]+\n\t\terr := ctx\.RegisterResource\("([^"]+)",')
_IMPORTS = """import (
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes/apiextensions"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)
"""
_REGISTER = """func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	token := fmt.Sprintf("kubernetes:%s:%s", apiVersion, kind)
	if apiVersion == "v1" {
		token = "kubernetes:core/v1:" + kind
	}
	var res apiextensions.CustomResource
	err := ctx.RegisterResource(token, name, props, &res, opts...)
	if err != nil {
		return nil, err
	}
	return &res, nil
}
"""


class SdkChanged(ValueError):
    """The SDK's switch differs from the one that this module replaces."""


def copy_untyped(module: Path, target: Path) -> None:
    """Copy the SDK's module with `PACKAGES` only and with the switch replaced. Raises `SdkChanged`."""
    target.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module / name, target / name)
    for package in PACKAGES:
        folder = target / _FOLDER / package
        folder.mkdir(parents=True, exist_ok=True)
        for path in (module / _FOLDER / package).glob("*.go"):
            shutil.copyfile(path, folder / path.name)
    kinds = target / _FOLDER / "yaml" / "v2" / "kinds.go"
    kinds.write_text(register_as_default(kinds.read_text()))


def register_as_default(kinds: str) -> str:
    """`kinds.go` without its typed cases. Raises `SdkChanged` if a case registers under another token than `_token`."""
    start, register = kinds.find("import ("), kinds.find("func RegisterResource(")
    end = kinds.find("\n)\n", start)
    cases = _CASE.findall(kinds[register:])
    if min(start, register, end) < 0 or len(cases) != kinds[register:].count("\tcase ") or not cases:
        raise SdkChanged("kinds.go does not have the expected form")
    for full, token in cases:
        if token != _token(full):
            raise SdkChanged(f"{full} is registered as {token}, not as {_token(full)}")
    return kinds[:start] + _IMPORTS + kinds[end + len("\n)\n") : register] + _REGISTER


def _token(full: str) -> str:
    version, _, kind = full.rpartition("/")
    return f"kubernetes:{'core/v1' if version == 'v1' else version}:{kind}"
