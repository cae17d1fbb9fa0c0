"""The edges of a real node: their objects, and the image that carries Ingress-NGINX on Debian's nginx."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devnet.controlplane.api import _collection
from devnet.controlplane.certificates import Outward, make_certificates
from devnet.errors import EnclosureFailed
from devnet.node import nginx
from devnet.node.edges import EdgeKind, definitions, edge_deployment, edge_objects, edge_settings
from devnet.node.images import add_image, program_image
from devnet.node.registry import _Registry
from tests.devnet.node.registry_folder import written_images

TEMPLATE = """pid {{ .PID }};
http {
    server {
    }
}

stream {
    lua_add_variable $proxy_upstream_name;
    server {
    }
}

{{/* definition of templates */}}
"""


@pytest.mark.parametrize("kind", EdgeKind)
def test_every_edge_has_objects_that_the_devnets_client_can_apply(tmp_path: Path, kind: EdgeKind) -> None:
    pki = make_certificates(tmp_path / "pki", Outward("172.20.0.2", "real-1"))
    objects = edge_objects(kind, pki)
    assert all(_collection(each) for each in objects)
    deployments = [each["metadata"] for each in objects if each["kind"] == "Deployment"]
    assert [(each["namespace"], each["name"]) for each in deployments] == [edge_deployment(kind)]
    labels = [each["metadata"].get("labels") for each in objects if each["kind"] == "Namespace"]
    assert edge_settings(kind) or labels == [{"app.kubernetes.io/name": "ingress-nginx"}], "policies keep it out"


def test_of_the_gateway_apis_files_only_definitions_are_applied(tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    texts = ({"kind": "CustomResourceDefinition", "n": 1}, {"kind": "ValidatingAdmissionPolicy"})
    (tmp_path / "crds" / "all.yaml").write_text("\n---\n".join(json.dumps(text) for text in texts))
    assert list(definitions(tmp_path)) == [{"kind": "CustomResourceDefinition", "n": 1}]


def test_an_image_that_is_added_later_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written_images(tmp_path, monkeypatch)
    (tmp_path / "traefik").write_text("a program")
    with _Registry(folder, 0) as registry:
        before = registry.digest("lessor.test/traefik:1", "1")
        add_image(folder, program_image("traefik", tmp_path / "traefik"))
        assert registry.digest("lessor.test/traefik:1", "1") != before == registry.digest("any/other:1", "1")


def test_the_template_for_debians_nginx_loads_its_modules_and_has_no_streams() -> None:
    changed = nginx._template(TEMPLATE)
    assert "stream {" not in changed and "lua_add_variable" not in changed
    assert "load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;\n" in changed
    assert changed.count("listen 127.0.0.1:{{ .StreamPort }};") == 1
    assert changed.endswith("{{/* definition of templates */}}\n")


def test_an_unknown_template_is_refused() -> None:
    with pytest.raises(EnclosureFailed, match="template"):
        nginx._template("http {\n}\n")


def test_a_machine_without_debians_nginx_is_told_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nginx, "_NGINX", tmp_path / "nginx")
    assert [str(tmp_path / "nginx") in said and "apt-get install nginx" in said for said in nginx.missing_nginx()] == [
        True
    ]
