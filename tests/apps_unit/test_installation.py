"""`tenantry manifests`: what is in them. That an API server takes it is shown beside the roles."""

from __future__ import annotations

import functools
from typing import Any

import click.testing
import pytest

from tenantry.apps import hooks, installation
from tenantry.cli import main
from tenantry.core import errors, yamls

Object = dict[str, Any]


def printed(*args: str) -> list[Object]:
    result = click.testing.CliRunner().invoke(main.command, ["manifests", *args])
    assert result.exit_code == 0, result.output
    return yamls.read(result.output)


def of(objects: list[Object], kind: str) -> dict[str, Object]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


@functools.cache
def everything() -> list[Object]:
    return printed("--namespace", "own", "--image", "r.example.com/t:9", "--replicas", "3",
                   "--gateway-secret", "front")  # fmt: skip


class TestPrinted:
    def test_roles_run_as_nobody_with_accounts_of_their_own(self) -> None:
        made = of(everything(), "Deployment")
        assert {
            name: (one["spec"]["replicas"], pod["serviceAccountName"], container["image"])
            for name, one in made.items()
            for pod in (one["spec"]["template"]["spec"],)
            for container in pod["containers"]
        } == {
            "tenantry-controller": (3, "capsule", "r.example.com/t:9"),
            "tenantry-webhook": (3, "tenantry-webhook", "r.example.com/t:9"),
            "tenantry-gateway": (3, "tenantry-gateway", "r.example.com/t:9"),
        }
        for one in made.values():
            pod = one["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            # What the Pod Security Standard "restricted" asks for.
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}
            assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}

    def test_replicas_keep_apart_and_one_goes_at_a_time(self) -> None:
        budgets = of(everything(), "PodDisruptionBudget")
        for name, one in of(everything(), "Deployment").items():
            labels = {"app.kubernetes.io/name": name}
            assert one["spec"]["selector"] == {"matchLabels": labels}
            assert labels.items() <= one["spec"]["template"]["metadata"]["labels"].items()
            (term,) = one["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
                "preferredDuringSchedulingIgnoredDuringExecution"
            ]
            assert term["podAffinityTerm"]["labelSelector"] == {"matchLabels": labels}
            assert budgets[name]["spec"] == {
                "maxUnavailable": 1,
                "selector": {"matchLabels": labels},
            }

    def test_everything_lies_in_the_namespace(self) -> None:
        spaces = {obj["metadata"].get("namespace", "own") for obj in everything()}
        assert spaces == {"own"}
        assert everything()[0] == {
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}
        }  # fmt: skip
        for kind in ("Validating", "Mutating"):
            (one,) = of(everything(), f"{kind}WebhookConfiguration").values()
            for hook in one["webhooks"]:
                service = hook["clientConfig"]["service"]
                assert (service["namespace"], service["name"]) == ("own", hooks.SERVICE)
                assert "caBundle" not in hook["clientConfig"]

    def test_without_a_certificate_there_is_no_gateway(self) -> None:
        made = printed("--no-crds", "--no-webhooks")
        assert set(of(made, "Deployment")) == {"tenantry-controller", "tenantry-webhook"}
        assert {obj["kind"] for obj in made} == {
            "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role",
            "RoleBinding", "Service", "PodDisruptionBudget", "Deployment",
        }  # fmt: skip
        assert set(of(made, "Service")) == {hooks.SERVICE, "tenantry-metrics"}

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"namespace": "Own"}, "namespace"),
            ({"namespace": ""}, "namespace"),
            ({"namespace": "a" * 64}, "namespace"),
            ({"image": "::"}, "image"),
            ({"image": ""}, "image"),
            ({"replicas": 0}, "replicas"),
            ({"replicas": 21}, "replicas"),
            ({"gateway_secret": "a/b"}, "gateway-secret"),
        ],
    )
    def test_bad_options_are_named(self, given: dict[str, Any], field: str) -> None:
        options = installation.Options(**{"image": "t:1", **given})
        with pytest.raises(errors.InvalidValueError, match=rf"^{field}: Invalid value"):
            installation.manifests(options, [])
