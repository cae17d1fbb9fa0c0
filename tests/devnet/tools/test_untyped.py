"""The plugin's switch by kinds, replaced by its default."""

from __future__ import annotations

import pytest

from devnet.tools.untyped import PACKAGES, SdkChanged, copy_untyped, register_as_default

KINDS = """package v2

import (
	"fmt"

	corev1 "github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes/core/v1"
	appsv1 "github.com/pulumi/pulumi-kubernetes/sdk/v4/go/kubernetes/apps/v1"
)

func IsListKind(apiVersion, kind string) bool {
	switch fullKind {
	case "v1/List":
		return true
	}
}

func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	switch fullKind {
	case "v1/ConfigMap":
		var res corev1.ConfigMap
		err := ctx.RegisterResource("kubernetes:core/v1:ConfigMap", name, props, &res, opts...)
	case "apps/v1/Deployment":
		var res appsv1.Deployment
		err := ctx.RegisterResource("kubernetes:apps/v1:Deployment", name, props, &res, opts...)
	default:
	}
}
"""


def test_only_the_typed_cases_are_removed():
    text = register_as_default(KINDS)
    assert "corev1" not in text
    assert "ConfigMap" not in text
    assert 'case "v1/List":' in text
    assert text.count("func RegisterResource(") == 1
    assert 'token = "kubernetes:core/v1:" + kind' in text


@pytest.mark.parametrize(
    "changed",
    [
        "",
        "package v2\n",
        KINDS.replace("kubernetes:apps/v1:Deployment", "kubernetes:apps/v2:Deployment"),
        KINDS.replace("var res appsv1.Deployment\n", ""),
        KINDS.replace("import (", "import_("),
    ],
)
def test_an_unexpected_switch_fails_the_build(changed):
    with pytest.raises(SdkChanged):
        register_as_default(changed)


def test_only_needed_packages_are_copied(tmp_path):
    module = tmp_path / "module"
    for package in (*PACKAGES, "core/v1"):
        folder = module / "go" / "kubernetes" / package
        folder.mkdir(parents=True)
        (folder / "init.go").write_text("package x\n")
    (module / "go/kubernetes/yaml/v2/kinds.go").write_text(KINDS)
    for name in ("go.mod", "go.sum"):
        (module / name).write_text(name)
    copy_untyped(module, tmp_path / "copy")
    assert not (tmp_path / "copy/go/kubernetes/core").exists()
    assert "appsv1" not in (tmp_path / "copy/go/kubernetes/yaml/v2/kinds.go").read_text()
    assert (tmp_path / "copy/go.mod").read_text() == "go.mod"
