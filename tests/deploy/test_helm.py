"""The Helm chart renders valid and restricted resources that call real commands."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from docs.generate.grafana import DEFAULT_BOARD
from expectations import tolerances
from tests.support import go_tools
from tests.support.command_lines import DEPLOY, GUARDED, SETTINGS, mistake
from tests.support.prometheus import installed
from tidemark.alerting.rules.files import read_rule_set
from tidemark.board.access import OPEN_PATHS
from tidemark.settings import health, objectives, owners
from tidemark.settings.clusters import (
    AclSettings,
    ClusterSettings,
    DeepLimits,
    TlsSettings,
    load_clusters,
)
from tidemark.settings.owners import read_machines
from tidemark.settings.secrets import PURPOSES, Process, purposes_of

CHART = DEPLOY / "helm" / "tidemark"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
GRAFANA = sorted((DEPLOY / "grafana").glob("*.json"))
VALUES = sorted((CHART / "ci").glob("*.yaml"))
KUBERNETES = ("1.29", "1.35")

OF_PROMETHEUS = "monitoring.coreos.com/v1"
"""Version of the resources that Prometheus' operator defines; Kubernetes has no schema of them."""

OPERATOR = ("github.com/prometheus-operator/prometheus-operator", "v0.85.0")
"""The module whose files define them."""

ONE = CHART / "ci" / "one-cluster.yaml"
MONITORED = CHART / "ci" / "monitored.yaml"


def needs_helm(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that renders the chart."""
    skip = pytest.mark.skipif(
        not go_tools.HAS_HELM,
        reason="no helm: install it, set HELM, or run python -m tests.support.go_tools",
    )
    return pytest.mark.slow(skip(test))


needs_go = pytest.mark.skipif(not go_tools.GO, reason="no go here to fetch the schemas")
each_values = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([go_tools.helm(), *map(str, arguments)], capture_output=True, text=True)


@cache
def rendered(
    values: Path, version: str = KUBERNETES[-1], release: str = "tide"
) -> tuple[dict[str, Any], ...]:
    """The resources that helm makes with these values."""
    cluster = ("--kube-version", f"{version}.0", "--namespace", "tide")
    done = helm("template", release, CHART, "--values", values, *cluster)
    assert done.returncode == 0, done.stderr
    return tuple(it for it in yaml.safe_load_all(done.stdout) if it)


def kinds(values: Path, kind: str, release: str = "tide") -> dict[str, dict[str, Any]]:
    made = rendered(values, release=release)
    return {it["metadata"]["name"]: it for it in made if it["kind"] == kind}


def pods(values: Path) -> dict[str, dict[str, Any]]:
    rows = kinds(values, "Deployment")
    return {name: it["spec"]["template"]["spec"] for name, it in rows.items()}


def with_test(values: Path) -> dict[str, dict[str, Any]]:
    """All pods, that of `helm test` too."""
    return {**pods(values), **{name: it["spec"] for name, it in kinds(values, "Pod").items()}}


COPIES = {
    **{f"files/{name}": f"dagster/{name}" for name in ("dagster.yaml", "workspace.yaml")},
    **{
        f"files/{name}": f"prometheus/{name}"
        for name in ("tidemark-alerts.yml", "tidemark-recording.yml")
    },
    **{f"dashboards/{path.name}": f"grafana/{path.name}" for path in GRAFANA},
}
"""Files of the chart, which a package of it must hold, and the files that they are copies of."""


def test_copies_in_the_chart_are_equal():
    for copy, original in COPIES.items():
        assert (CHART / copy).read_text() == (DEPLOY / original).read_text(), copy
    present = {path.relative_to(CHART).as_posix() for path in CHART.glob("*/*.json")}
    assert {name for name in COPIES if name.startswith("dashboards")} == present


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
        "replicas=3",
        "collector.evry=1s",
        "image.digest=latest",
        "networkPolicy.egress.postgres.ports={5432}",
        "clusters[0].namsrv=10.0.0.1:9876",
        "clusters[0].deep_limits.clients=1",
        "ingress.hosts={x}",
        "monitoring.serviceMonitor.enable=true",
        "settings.TIDEMARK_SCHEDULE=off",
        "settings.TIDEMARK_RULES=/x",
        "settings.LANG=C",
        "settings.TIDEMARK_SERVE_TOKEN=x",
        "board.resources.limts.memory=1Gi",
        "board.resources.limits.memory=3GB",
        "scratch.size=10K",
        "image.pullSecrets[0].nmae=registry",
        "tolerations[0].effects=NoSchedule",
        "affinity.podAffinities.x=y",
        "topologySpreadConstraints[0].maxSkews=1",
        "networkPolicy.ingressFrom.board[0].namespaceSelectors.x=y",
        "networkPolicy.egress.postgresql.to[0].ipBlock.cdir=10.0.0.0/8",
        "podLabels.app\\.kubernetes\\.io/name=x",
        "podAnnotations.checksum/config=x",
        "podDisruptionBudget.maxUnavailable=half",
        "files.a/b=x",
    ],
)
def test_helm_refuses_wrong_values(wrong):
    done = helm("lint", CHART, "--values", ONE, "--set", wrong)
    assert done.returncode != 0
    name = wrong.split("=")[0]
    words = [it for it in re.split(r"\W", name) if not it.isdigit()]
    assert any(it in done.stdout + done.stderr for it in words[-2:])


@needs_helm
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"clusters": []}, "clusters"),
        ({"files": {"clusters.yaml": "x"}}, "clusters.yaml"),
        ({"files": {"owners.yaml": "x"}}, "owners.yaml"),
        ({"ingress": {"enabled": True}}, "host"),
    ],
    ids=["no cluster", "a file of the chart", "a file of a value", "an ingress without a host"],
)
def test_helm_refuses_what_cannot_run(wrong, word, tmp_path):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(wrong))
    done = helm("lint", CHART, "--values", ONE, "--values", file)
    assert done.returncode != 0
    assert word in done.stdout + done.stderr


@needs_helm
def test_names_that_no_service_may_have_are_refused():
    done = helm("template", "1st", CHART, "--values", ONE, "--kube-version", "1.35.0")
    assert "begins with a letter" in done.stderr


@needs_helm
def test_texts_that_yaml_reads_as_something_else_stay_texts(tmp_path):
    """Numbers, words of YAML, aliases, and files that begin or end with blanks."""
    text = "   # indented\n\nrules: []   \n\n"
    words = {
        "secret": "123",
        "secretFiles": "true",
        "image": {"repository": "1e3", "tag": "2"},
        "ingress": {"enabled": True, "host": "*.example.org", "className": "no", "tlsSecret": "1"},
        "monitoring": {"serviceMonitor": {"enabled": True, "tokenKey": "0x1"}},
        "rules": text,
        "health": text,
        "files": {"1": text, "no": "{{ .x }}: &a *b\r\n"},
        "expectations": {"2": text},
    }
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(yaml.safe_load(ONE.read_text()) | words))
    for resource in rendered(values, release="true"):
        if resource["apiVersion"] != OF_PROMETHEUS:
            kubernetes_validate.validate(resource, KUBERNETES[-1], strict=True)
    maps = {name: it["data"] for name, it in kinds(values, "ConfigMap", "true").items()}
    assert maps["true-rules"] == {"rules.yaml": text}
    assert maps["true-expectations"] == words["expectations"]
    assert maps["true-files"].items() >= {"health.yaml": text, **words["files"]}.items()
    (ingress,) = kinds(values, "Ingress", "true").values()
    assert ingress["spec"]["tls"] == [{"hosts": ["*.example.org"], "secretName": "1"}]
    (monitor,) = kinds(values, "ServiceMonitor", "true").values()
    credentials = monitor["spec"]["endpoints"][0]["authorization"]["credentials"]
    assert credentials == {"name": "123", "key": "0x1"}


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a schema that lists its values, by path."""
    for name, inner in schema.get("properties", {}).items():
        inner = SCHEMA["definitions"][inner["$ref"].split("/")[-1]] if "$ref" in inner else inner
        if "properties" in inner:
            yield f"{path}{name}", inner
            yield from schemas(inner, f"{path}{name}.")


def test_the_schema_knows_every_value_and_no_other():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, inner in (("", SCHEMA), *schemas(SCHEMA)):
        assert inner["additionalProperties"] is False, path
        given = reduce(lambda it, key: it[key], filter(None, path.split(".")), values)
        if path != "affinity":
            assert inner["properties"].keys() - {"global"} == given.keys(), path
    cluster = SCHEMA["properties"]["clusters"]["items"]
    for model, inner in {
        ClusterSettings: cluster,
        AclSettings: cluster["properties"]["acl"],
        TlsSettings: cluster["properties"]["tls"],
        DeepLimits: cluster["properties"]["deep_limits"],
    }.items():
        assert inner["additionalProperties"] is False, model
        assert inner["properties"].keys() == model.model_fields.keys() - {"spark_tasks"}, model


def test_settings_take_no_secret():
    """They are in a ConfigMap, which more people read."""
    _, of_chart, of_secret = SCHEMA["properties"]["settings"]["propertyNames"]["allOf"]
    secrets = {variable for purpose in PURPOSES for variable in purpose.variables}
    assert set(of_secret["not"]["enum"]) == {it for it in secrets if it.startswith("TIDEMARK_")}
    assert set(of_chart["not"]["enum"]) <= SETTINGS


@needs_helm
@each_values
def test_no_key_is_rendered_twice(values):
    """YAML keeps the last of two, so one of them would silently be without effect."""
    done = helm("template", "tide", CHART, "--values", values, "--kube-version", "1.35.0")
    assert done.returncode == 0, done.stderr
    for document in done.stdout.split("\n---\n"):
        yaml.load(document, Loader=OnceLoader)


class OnceLoader(yaml.SafeLoader):
    """A loader that refuses a key twice in one mapping."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {sorted(keys)}"
        return super().construct_mapping(node, deep)


def test_every_value_has_a_line_in_the_readme():
    text = (CHART / "README.md").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = {
        word
        for line in re.findall(r"(?m)^\| (.+?) \|", text)
        for word in re.findall(r"`([\w.]+)`", line)
    }
    assert {name.split(".")[0] for name in named} == values.keys()


@needs_helm
@each_values
@pytest.mark.parametrize("version", KUBERNETES)
def test_resources_are_valid(values, version):
    resources = rendered(values, version)
    assert len(resources) > 10
    for resource in resources:
        if resource["apiVersion"] != OF_PROMETHEUS:
            kubernetes_validate.validate(resource, version, strict=True)


@cache
def operator_schema(kind: str) -> dict[str, Any]:
    """The schema that Prometheus' operator defines for a kind of resource."""
    folder = go_tools.module(*OPERATOR) / "example" / "prometheus-operator-crd"
    (file,) = folder.glob(f"monitoring.coreos.com_{kind.lower()}s.yaml")
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    assert f"monitoring.coreos.com/{version['name']}" == OF_PROMETHEUS
    return closed(version["schema"]["openAPIV3Schema"])


def closed(schema: Any) -> Any:
    """A schema that refuses unknown fields, which Kubernetes would drop without a word."""
    if isinstance(schema, list):
        return [closed(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(it) for name, it in schema.items()}
    if "(?i)" in str(inner.get("pattern")):
        del inner["pattern"]  # a flag that is not at the start is Go's
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


@needs_helm
@needs_go
def test_resources_of_prometheus_operator_are_valid():
    made = [it for it in rendered(MONITORED) if it["apiVersion"] == OF_PROMETHEUS]
    assert {it["kind"] for it in made} == {"ServiceMonitor", "PrometheusRule"}
    for resource in made:
        schema = operator_schema(resource["kind"])
        jsonschema.validate(resource, schema)
        with pytest.raises(jsonschema.ValidationError, match="unknown"):
            jsonschema.validate(resource | {"spec": resource["spec"] | {"unknown": 1}}, schema)


@needs_helm
@each_values
def test_pods_meet_the_restricted_standard(values):
    """As Kubernetes' pod security standard `restricted` requires, and with a read-only root."""
    for name, pod in with_test(values).items():
        context = pod["securityContext"]
        assert context["runAsNonRoot"], name
        assert context["runAsUser"] > 0, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        kinds_of_volumes = {kind for it in pod.get("volumes", ()) for kind in it if kind != "name"}
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
        if container["name"] == Process.CODE:
            needed |= set(re.findall(r"\$\{(\w+)\}", values.read_text()))
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
    labels += [it["metadata"]["labels"] for it in kinds(values, "Pod").values()]
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
    for folder in ("expectations", "rules"):
        if f"tide-{folder}" in maps:
            mounted.add(f"/etc/tidemark-{folder}")
    named = {it for it in maps["tide-env"].values() if it.startswith("/etc/tidemark")}
    assert named - {"/etc/tidemark"} and named - {"/etc/tidemark"} <= mounted
    wanted = values.stem in ("outside", "monitored")
    assert wanted == ("/etc/tidemark/health.yaml" in named) == ("/etc/tidemark-rules" in named)


@needs_helm
def test_every_file_of_settings_can_be_read(tmp_path, monkeypatch):
    """Each is read by the program that reads it, from where the pods have it."""
    maps = {name: it["data"] for name, it in kinds(MONITORED, "ConfigMap").items()}
    for folder in ("files", "rules"):
        (tmp_path / folder).mkdir()
        for file, text in maps[f"tide-{folder}"].items():
            (tmp_path / folder / file).write_text(text)
    read = {
        "health": health.read,
        "quality": tolerances.read,
        "capacity": read_machines,
        "objectives": objectives.read,
        "owners": owners.read,
    }
    for name, reader in read.items():
        assert maps["tide-env"][f"TIDEMARK_{name.upper()}"] == f"/etc/tidemark/{name}.yaml"
        entries, mistakes = reader(tmp_path / "files" / f"{name}.yaml", required=True)
        assert mistakes == [] and len(entries) == 1, name
    monkeypatch.setenv("SLACK_TOKEN", "x/y/z")
    declared = read_rule_set(tmp_path / "rules")
    assert list(declared.mistakes) == []
    assert [rule.name for rule in declared.rules] == ["orders-late"]
    assert maps["tide-env"]["TIDEMARK_SCHEDULE"] == "off"


@needs_helm
def test_options_that_are_off_render_nothing():
    made = {it["kind"] for it in rendered(ONE)}
    optional = {"ServiceMonitor", "PrometheusRule", "Ingress", "PodDisruptionBudget"}
    assert not made & optional
    assert made | optional == {it["kind"] for it in rendered(MONITORED)}
    assert "tide-dashboards" in kinds(MONITORED, "ConfigMap")
    assert "tide-dashboards" not in kinds(ONE, "ConfigMap")


@needs_helm
def test_prometheus_scrapes_the_board_with_a_token_of_the_secret():
    (monitor,) = kinds(MONITORED, "ServiceMonitor").values()
    (board,) = (it for name, it in kinds(MONITORED, "Service").items() if name == "tide-board")
    labels = board["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "tidemark", "as the rules select"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in board["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {
        "name": "tidemark",
        "key": "TIDEMARK_SERVE_READ_TOKEN",
    }
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@needs_helm
def test_rendered_rules_are_valid(tmp_path):
    (rule,) = kinds(MONITORED, "PrometheusRule").values()
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    command = [installed("promtool"), "check", "rules", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shipped = [
        one["alert"]
        for group in yaml.safe_load((DEPLOY / "prometheus/tidemark-alerts.yml").read_text())[
            "groups"
        ]
        for one in group["rules"]
    ]
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert [one["alert"] for one in alerts] == shipped
    for one in alerts:
        assert "runbook" not in one["annotations"], "a path leads nowhere in Alertmanager"
        link = one["annotations"].get(
            "runbook_url", "https://docs.example.org/tidemark/runbooks/x.html"
        )
        assert re.fullmatch(r"https://docs\.example\.org/tidemark/runbooks/[a-z-]+\.html", link)
    assert sum("runbook_url" in one["annotations"] for one in alerts) > 5


@needs_helm
def test_dashboards_are_whole_and_found_by_the_sidecar():
    made = kinds(MONITORED, "ConfigMap")["tide-dashboards"]
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made["data"].keys() == {path.name for path in GRAFANA}
    for path in GRAFANA:
        text = path.read_text()
        assert text.count(DEFAULT_BOARD) >= 1
        own = text.replace(DEFAULT_BOARD, "https://tidemark.example.org")
        assert json.loads(made["data"][path.name]) == json.loads(own)


@needs_helm
def test_pods_are_placed_and_labelled_as_wanted():
    for name, it in kinds(MONITORED, "Deployment").items():
        template = it["spec"]["template"]
        assert template["metadata"]["labels"]["team"] == "platform", name
        assert template["metadata"]["annotations"]["example.org/scanned"] == "yes", name
        assert "nodeAffinity" in template["spec"]["affinity"], name
        (spread,) = template["spec"]["topologySpreadConstraints"]
        selected = spread["labelSelector"]["matchLabels"]
        assert selected.items() <= template["metadata"]["labels"].items(), name
        assert not selected.items() & {("team", "platform")}
    for name, it in kinds(MONITORED, "PodDisruptionBudget").items():
        pods_of = kinds(MONITORED, "Deployment")[name]["spec"]["template"]["metadata"]["labels"]
        assert it["spec"]["selector"]["matchLabels"].items() <= pods_of.items()


@needs_helm
def test_every_server_has_a_probe_of_readiness():
    """A Service without one sends requests to a process that cannot respond yet."""
    for path in VALUES:
        deployments = kinds(path, "Deployment")
        for name in kinds(path, "Service"):
            if name in deployments:
                container = deployments[name]["spec"]["template"]["spec"]["containers"][0]
                assert container["readinessProbe"], name


@needs_helm
def test_the_notes_name_what_policies_keep_apart(tmp_path):
    # Helm prints notes only of an installation, for which it needs a cluster.
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes")
    (chart / "templates" / "probe.yaml").write_text(
        'kind: Notes\ntext: {{ tpl (.Files.Get "notes") . | quote }}\n'
    )

    def notes(values: Path) -> str:
        version = f"{KUBERNETES[-1]}.0"
        done = helm("template", "tide", chart, "--values", values, "--kube-version", version)
        made = [it for it in yaml.safe_load_all(done.stdout) if it]
        return next(it["text"] for it in made if it["kind"] == "Notes")

    by_name = {path.stem: path for path in VALUES}
    assert "LET NO PROCESS REACH: postgresql, objectStore, rocketmq." in notes(ONE)
    assert "LET NO PROCESS REACH" not in notes(by_name["outside"])
    assert "NOBODY MAY REACH THE BOARD" not in notes(MONITORED)
    assert "helm -n default test tide" in notes(ONE)


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
