"""The Helm chart renders valid and restricted resources that call real commands."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.command_lines import DEPLOY, GUARDED, SETTINGS, mistake
from tidemark.board.access import OPEN_PATHS
from tidemark.settings.clusters_file import load_clusters
from tidemark.settings.secrets import PURPOSES, Process, purposes_of

CHART = DEPLOY / "helm" / "tidemark"
VALUES = sorted((CHART / "ci").glob("*.yaml"))
KUBERNETES = ("1.29", "1.35")
HELM = os.environ.get("HELM") or shutil.which("helm")

needs_helm = pytest.mark.skipif(
    not HELM, reason="no helm here: go install helm.sh/helm/v3/cmd/helm@v3.19.5, or set HELM"
)
each_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *map(str, arguments)], capture_output=True, text=True)


@cache
def rendered(values: Path, version: str = KUBERNETES[-1]) -> tuple[dict[str, Any], ...]:
    """The resources that helm makes with these values."""
    cluster = ("--kube-version", f"{version}.0", "--namespace", "tide")
    done = helm("template", "tide", CHART, "--values", values, *cluster)
    assert done.returncode == 0, done.stderr
    return tuple(it for it in yaml.safe_load_all(done.stdout) if it)


def kinds(values: Path, kind: str) -> dict[str, dict[str, Any]]:
    return {it["metadata"]["name"]: it for it in rendered(values) if it["kind"] == kind}


def pods(values: Path) -> dict[str, dict[str, Any]]:
    rows = kinds(values, "Deployment")
    return {name: it["spec"]["template"]["spec"] for name, it in rows.items()}


def test_files_of_the_chart_are_those_of_the_image():
    for name in ("dagster.yaml", "workspace.yaml"):
        assert (CHART / "files" / name).read_text() == (DEPLOY / "dagster" / name).read_text()


@needs_helm
@each_values
def test_helm_finds_no_mistake(values):
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize(
    "wrong",
    [
        "secret=",
        "catalog.type=hive",
        "catalog.warehouse=file:///x",
        "landing=file:///x",
        "home.existingClaim=x",
        "spark.remote=spark://x",
    ],
)
def test_helm_refuses_wrong_values(wrong):
    done = helm("lint", CHART, "--values", VALUES[0], "--set", wrong)
    assert done.returncode != 0
    name = wrong.split("=")[0]
    assert name.split(".")[0 if name.startswith("home") else -1] in done.stdout + done.stderr


@needs_helm
@each_values
@pytest.mark.parametrize("version", KUBERNETES)
def test_resources_are_valid(values, version):
    resources = rendered(values, version)
    assert len(resources) > 10
    for resource in resources:
        kubernetes_validate.validate(resource, version, strict=True)


@needs_helm
@each_values
def test_pods_meet_the_restricted_standard(values):
    """As Kubernetes' pod security standard `restricted` requires, and with a read-only root."""
    for name, pod in pods(values).items():
        context = pod["securityContext"]
        assert context["runAsNonRoot"], name
        assert context["runAsUser"] > 0, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        kinds_of_volumes = {kind for it in pod["volumes"] for kind in it if kind != "name"}
        assert kinds_of_volumes <= {"configMap", "emptyDir", "secret"}, name
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False, name
            assert own["capabilities"] == {"drop": ["ALL"]}, name
            assert own["readOnlyRootFilesystem"], name


@needs_helm
@each_values
def test_commands_are_taken_by_their_programs(values):
    for name, pod in pods(values).items():
        for container in pod["containers"]:
            assert mistake(container["args"]) is None, name
            assert container["livenessProbe"], name
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            assert "memory" in container["resources"]["limits"], name


def test_probes_of_the_board_need_no_login():
    """A kubelet has none; a board that is never ready gets no request."""
    template = (CHART / "templates" / "board.yaml").read_text()
    paths = re.findall(r"httpGet: {path: ([^,]+),", template)
    assert len(paths) == 3
    assert set(paths) <= set(OPEN_PATHS)


@needs_helm
@each_values
def test_variables_are_settings(values):
    names = re.findall(r"\bTIDEMARK_\w+", yaml.safe_dump_all(rendered(values)))
    assert len(set(names)) > 5
    assert set(names) <= SETTINGS


@needs_helm
@each_values
def test_the_file_of_clusters_can_be_read(values, tmp_path, monkeypatch):
    for variable in ("ORDERS_ACCESS_KEY", "ORDERS_SECRET_KEY"):
        monkeypatch.setenv(variable, "x")
    file = tmp_path / "clusters.yaml"
    file.write_text(kinds(values, "ConfigMap")["tide-files"]["data"]["clusters.yaml"])
    assert [it.name for it in load_clusters(file)] == ["orders"]


@needs_helm
@each_values
def test_secrets_come_by_reference_only(values):
    """Each process gets those that it needs and no other."""
    assert kinds(values, "Secret") == {}
    accounts = {"ORDERS_ACCESS_KEY", "ORDERS_SECRET_KEY"}
    has_accounts = accounts <= set(re.findall(r"\w+", values.read_text()))
    containers = [it for pod in pods(values).values() for it in pod["containers"]]
    assert {it["name"] for it in containers} >= set(Process) - {Process.ENGINE}
    for container in containers:
        assert [*container["envFrom"][0]] == ["configMapRef"] and len(container["envFrom"]) == 1
        references = [
            it["valueFrom"]["secretKeyRef"] for it in container["env"] if "valueFrom" in it
        ]
        assert {it["name"] for it in references} == {"tidemark"}
        purposes = purposes_of(Process(container["name"]))
        needed = {variable for purpose in purposes for variable in purpose.variables}
        if has_accounts and "accounts" in {purpose.name for purpose in purposes}:
            needed |= accounts
        assert {it["key"] for it in references} == needed, container["name"]
        for it in container["env"]:
            assert "valueFrom" not in it or it["name"] == it["valueFrom"]["secretKeyRef"]["key"]


def test_the_template_names_every_secret_of_the_table():
    """Where no helm is: the lists of the template are those of the table."""
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    for purpose in PURPOSES:
        quoted = " ".join(f'"{name}"' for name in purpose.variables)
        assert f"${purpose.name} := list {quoted}".rstrip() in text
    for process in Process:
        (lists,) = re.findall(rf'(?m)^  "{process}" (.+)$', text)
        names = [purpose.name for purpose in purposes_of(process)]
        assert re.findall(r"\$(\w+)", lists) == names, process


@needs_helm
def test_board_and_dagsters_pages_are_opened_by_lists_of_their_own():
    opened = kinds(next(path for path in VALUES if path.stem == "outside"), "NetworkPolicy")
    assert "tide-board" in opened and "tide-webserver" not in opened


def test_the_policy_reads_a_list_for_each():
    text = (CHART / "templates" / "networkpolicy.yaml").read_text()
    assert "with index $.Values.networkPolicy.ingressFrom $component" in text
    given = yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]["ingressFrom"]
    assert given == {"board": [], "webserver": []}


@needs_helm
@each_values
def test_services_and_policies_select_pods_that_exist(values):
    deployments = kinds(values, "Deployment").values()
    labels = [it["spec"]["template"]["metadata"]["labels"] for it in deployments]
    for name, service in kinds(values, "Service").items():
        wanted = service["spec"]["selector"].items()
        assert [it for it in labels if wanted <= it.items()], name
    for name, policy in kinds(values, "NetworkPolicy").items():
        wanted = policy["spec"]["podSelector"].get("matchLabels", {}).items()
        assert [it for it in labels if wanted <= it.items()], name


@needs_helm
def test_an_engine_runs_unless_spark_is_outside():
    by_name = {path.stem: path for path in VALUES}
    inside, outside = pods(by_name["one-cluster"]), pods(by_name["outside"])
    assert [it["name"] for it in inside["tide-code"]["containers"]] == ["code", "engine"]
    assert [it["name"] for it in outside["tide-code"]["containers"]] == ["code"]


@needs_helm
@each_values
def test_pods_share_no_disk(values):
    """They share PostgreSQL and the bucket; each container writes to a volume of its own."""
    assert kinds(values, "PersistentVolumeClaim") == {}
    environment = kinds(values, "ConfigMap")["tide-env"]["data"]
    for place in ("TIDEMARK_WAREHOUSE", "TIDEMARK_LANDING"):
        assert environment[place].startswith("s3://"), place
    for name, pod in pods(values).items():
        kind_of = {it["name"]: (it.keys() - {"name"}).pop() for it in pod["volumes"]}
        mounts = [it for container in pod["containers"] for it in container["volumeMounts"]]
        written = [it["name"] for it in mounts if not it.get("readOnly")]
        assert len(written) == len(set(written)) == 2 * len(pod["containers"]), name
        assert {kind_of[it] for it in written} == {"emptyDir"}, name
        assert {it["name"] for it in mounts} == kind_of.keys(), name


@needs_helm
@each_values
def test_files_that_settings_name_are_mounted(values):
    maps = {name: it["data"] for name, it in kinds(values, "ConfigMap").items()}
    mounted = {f"/etc/tidemark/{file}" for file in maps["tide-files"]}
    if "tide-expectations" in maps:
        mounted.add("/etc/tidemark-expectations")
    named = {it for it in maps["tide-env"].values() if it.startswith("/etc/tidemark/")}
    assert named and named <= mounted
    assert (values.stem == "outside") == ("/etc/tidemark/health.yaml" in named)


@needs_helm
def test_only_an_engine_with_executors_may_start_pods():
    for path in VALUES:
        expected = path.stem == "executors"
        assert bool(kinds(path, "Role")) == expected, path.stem
        assert pods(path)["tide-code"]["automountServiceAccountToken"] == expected, path.stem
        assert not pods(path)["tide-board"]["automountServiceAccountToken"], path.stem


@needs_helm
@each_values
def test_dagsters_pages_are_guarded_and_change_nothing(values):
    (pod,) = (pod for name, pod in pods(values).items() if name.endswith("webserver"))
    assert pod["containers"][0]["args"][:2] == GUARDED
    variables = yaml.safe_dump_all(rendered(values))
    assert "DAGSTER_WEBSERVER_READ_ONLY: 'true'" in variables


def test_the_template_of_dagsters_pages_starts_the_guard():
    template = (CHART / "templates" / "webserver.yaml").read_text()
    assert f"args: [{', '.join(GUARDED)}, " in template
