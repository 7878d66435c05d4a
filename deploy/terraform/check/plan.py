#!/usr/bin/env python3
"""Plans of the modules for containers, with a provider that has no cloud behind it: plan.py TOFU PROVIDER

TOFU is OpenTofu or Terraform, PROVIDER the program of deploy/terraform/provider. The configurations are the examples of docs/cloud.md. What is
planned is compared with what the services need: probes, times, ports, secrets, rights.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIGEST = "@sha256:" + "0123456789abcdef" * 4
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12Cd"
VERSIONS = {"azurerm": "4.55.0", "aws": "6.27.0", "google": "7.13.0"}
EXAMPLES = re.findall(r"```yaml weir.yaml\n(.*?)```", (ROOT.parents[1] / "docs/cloud.md").read_text(), re.DOTALL)
AZURE = {"location": "westeurope", "image": f"example.azurecr.io/weir{DIGEST}"}
AWS = {
    "image": f"example.com/weir{DIGEST}",
    "shell_image": f"example.com/busybox{DIGEST}",
    "vpc_id": "vpc-1",
    "balancer_subnet_ids": ["subnet-1", "subnet-2"],
    "task_subnet_ids": ["subnet-3", "subnet-4"],
}
GOOGLE = {"region": "europe-west3", "image": f"example.com/weir{DIGEST}"}


class Refused(Exception):
    """No plan; what the program said is its text."""


def plan(provider, folder, values, config):
    """The planned resources of a module, by their addresses in it."""
    features = "  features {}\n" if provider == "azurerm" else ""
    # JSON is a part of the language.
    arguments = "".join(f"  {name} = {json.dumps(value)}\n" for name, value in values.items())
    with tempfile.TemporaryDirectory() as tmp:
        # Relative: of an absolute path the folder alone would be copied, without the module that it calls.
        source = os.path.relpath(ROOT / folder, Path(tmp).resolve())
        (Path(tmp) / "weir.yaml").write_text(config)
        (Path(tmp) / "main.tf").write_text(
            f'terraform {{\n  required_providers {{\n    {provider} = {{ source = "hashicorp/{provider}" }}\n  }}\n}}\n\n'
            f'provider "{provider}" {{\n{features}}}\n\n'
            f'module "weir" {{\n  source = "{source}"\n  config = file("${{path.module}}/weir.yaml")\n{arguments}}}\n'
        )
        for arguments in (["init"], ["validate"], ["plan", "-out=plan"], ["show", "-json", "plan"]):
            command = [sys.argv[1], *arguments, *([] if "-json" in arguments else ["-no-color"])]
            done = subprocess.run(command, cwd=tmp, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Refused(" ".join(re.sub(r"[│╷╵]", " ", done.stdout + done.stderr).split()))
    resources = json.loads(done.stdout)["planned_values"]["root_module"]["child_modules"][0]["resources"]
    return {one["address"].removeprefix("module.weir."): one["values"] for one in resources}


class Checks:
    """Comparisons, and how many of them failed."""

    def __init__(self):
        self.count = self.failed = 0

    def same(self, what, found, wanted):
        self.count += 1
        if found != wanted:
            self.failed += 1
            print(f"{what}: {found!r}, but it should be {wanted!r}")

    def refused(self, what, words, *given):
        self.count += 1
        try:
            plan(*given)
        except Refused as refused:
            if words in str(refused):
                return
            print(f"{what}: refused, but not with {words!r}: {refused}")
        else:
            print(f"{what}: not refused")
        self.failed += 1


def addresses(planned, kind):
    return sorted(address for address in planned if address.startswith(kind + "."))


def azure(checks):
    folder = "azure/container-apps"
    planned = plan("azurerm", folder, AZURE, EXAMPLES[0])
    app = planned["azurerm_container_app.weir"]
    template, ingress = app["template"][0], app["ingress"][0]
    container = template["container"][0]
    same = checks.same
    same("seconds to stop", template["termination_grace_period_seconds"], 70)
    same("ingress", (ingress["external_enabled"], ingress["target_port"], ingress["transport"]), (True, 8080, "http"))
    same("insecure", ingress["allow_insecure_connections"], False)
    same("everybody", [one["ip_address_range"] for one in ingress["ip_security_restriction"]], ["0.0.0.0/0"])
    same("image", container["image"], AZURE["image"])
    same("arguments", container["args"], ["--config", "/etc/weir/weir-yaml"])
    same("file", [(one["name"], one["value"]) for one in app["secret"]], [("weir-yaml", EXAMPLES[0])])
    same(
        "volume",
        (template["volume"][0]["storage_type"], container["volume_mounts"][0]["path"]),
        ("Secret", "/etc/weir"),
    )
    same("mounted", template["volume"][0]["name"], container["volume_mounts"][0]["name"])
    for probe in ("startup_probe", "readiness_probe"):
        one = container[probe][0]
        same(probe, (one["transport"], one["port"], one["path"]), ("HTTP", 8081, "/healthz"))
    same(
        "liveness", (container["liveness_probe"][0]["transport"], container["liveness_probe"][0]["port"]), ("TCP", 8081)
    )
    same("memory", (container["cpu"], container["memory"]), (1, "2Gi"))
    same("replicas", (template["min_replicas"], template["max_replicas"]), (2, 10))
    same("no rights", addresses(planned, "azurerm_role_assignment"), [])
    same("no registry", app["registry"], [])
    same("no network", planned["azurerm_container_app_environment.weir"]["infrastructure_subnet_id"], None)

    more = AZURE | {
        "registry_id": "/registries/example",
        "key_vault_id": "/vaults/example",
        "secrets": {"REDIS_URL": "https://example.vault.azure.net/secrets/redis-url"},
        "subnet_id": "/subnets/weir",
        "internal": True,
        "http2": True,
        "client_cidrs": ["203.0.113.0/24", "198.51.100.0/24"],
    }
    planned = plan("azurerm", folder, more, EXAMPLES[0])
    app = planned["azurerm_container_app.weir"]
    environment = planned["azurerm_container_app_environment.weir"]
    same("HTTP/2", app["ingress"][0]["transport"], "http2")
    networks = [
        (one["name"], one["action"], one["ip_address_range"]) for one in app["ingress"][0]["ip_security_restriction"]
    ]
    same("networks", networks, [("clients-0", "Allow", "203.0.113.0/24"), ("clients-1", "Allow", "198.51.100.0/24")])
    same(
        "internal",
        (environment["internal_load_balancer_enabled"], environment["zone_redundancy_enabled"]),
        (True, True),
    )
    identity = "azurerm_user_assigned_identity.id"
    same("identity", app["identity"][0]["identity_ids"], [identity])
    same(
        "registry",
        [(one["server"], one["identity"], one["password_secret_name"]) for one in app["registry"]],
        [("example.azurecr.io", identity, None)],
    )
    vault = {one["name"]: one for one in app["secret"]}.get("redis-url", {})
    same(
        "secret",
        (vault.get("key_vault_secret_id"), vault.get("identity"), vault.get("value")),
        (more["secrets"]["REDIS_URL"], identity, None),
    )
    variables = {one["name"]: one["secret_name"] for one in app["template"][0]["container"][0]["env"]}
    same("variables", variables, {"WEIR_CONFIG_SHA256": None, "REDIS_URL": "redis-url"})
    rights = {
        one["role_definition_name"]: one["scope"] for address, one in planned.items() if "role_assignment" in address
    }
    same("rights", rights, {"AcrPull": "/registries/example", "Key Vault Secrets User": "/vaults/example"})

    def configured(config):
        container = plan("azurerm", folder, AZURE, config)["azurerm_container_app.weir"]["template"][0]["container"][0]
        return {one["name"]: one["value"] for one in container["env"]}["WEIR_CONFIG_SHA256"]

    same(
        "another configuration is another revision",
        configured(EXAMPLES[0]) == configured(EXAMPLES[0] + "# changed\n"),
        False,
    )
    checks.refused(
        "drain", "below 600 seconds", "azurerm", folder, AZURE, EXAMPLES[0].replace("drain: 60s", "drain: 10m")
    )
    checks.refused(
        "port", "ports 8080, 8081", "azurerm", folder, AZURE, EXAMPLES[0].replace("0.0.0.0:8081", "0.0.0.0:8082")
    )


def aws(checks):
    folder = "aws/fargate"
    planned = plan("aws", folder, AWS, EXAMPLES[1])
    same = checks.same
    task = planned["aws_ecs_task_definition.weir"]
    first, weir = json.loads(task["container_definitions"])
    same("task", (task["cpu"], task["memory"], task["network_mode"]), ("1024", "2048", "awsvpc"))
    same(
        "containers",
        (first["name"], first["essential"], weir["name"], weir["essential"]),
        ("config", False, "weir", True),
    )
    same("order", weir["dependsOn"], [{"containerName": "config", "condition": "SUCCESS"}])
    same("images", (first["image"], weir["image"]), (AWS["shell_image"], AWS["image"]))
    version = "aws_secretsmanager_secret.arn:::aws_secretsmanager_secret_version.version_id"
    same("configuration", first["secrets"], [{"name": "WEIR_CONFIG", "valueFrom": version}])
    same("stored", planned["aws_secretsmanager_secret_version.config"]["secret_string"], EXAMPLES[1])
    same("arguments", weir["command"], ["--config", "/etc/weir/weir.yaml"])
    mounts = [
        (one["sourceVolume"], one["containerPath"], one["readOnly"])
        for one in first["mountPoints"] + weir["mountPoints"]
    ]
    same("mounts", mounts, [("config", "/etc/weir", False), ("config", "/etc/weir", True)])
    same("volume", [one["name"] for one in task["volume"]], ["config"])
    same("seconds to stop", weir["stopTimeout"], 70)
    same("health", weir["healthCheck"]["command"], ["CMD", "weir", "probe", "http://127.0.0.1:9901/livez"])
    same("ports", [one["containerPort"] for one in weir["portMappings"]], [8080, 8081])
    same("root", (weir["readonlyRootFilesystem"], weir["linuxParameters"]["capabilities"]), (True, {"drop": ["ALL"]}))
    same("log", weir["logConfiguration"]["options"]["awslogs-region"], "aws_cloudwatch_log_group.region")
    group = planned["aws_lb_target_group.weir"]
    same("targets", (group["target_type"], group["port"], group["proxy_protocol_v2"]), ("ip", 8080, True))
    check = group["health_check"][0]
    same("health check", (check["protocol"], check["port"], check["path"]), ("HTTP", "8081", "/healthz"))
    listener = planned["aws_lb_listener.weir"]
    same("listener", (listener["protocol"], listener["port"], listener["tcp_idle_timeout_seconds"]), ("TCP", 443, 350))
    same("no TLS", (listener["certificate_arn"], listener["ssl_policy"], listener["alpn_policy"]), (None, None, None))
    clients = [
        planned[address]["cidr_ipv4"]
        for address in addresses(planned, "aws_vpc_security_group_ingress_rule")
        if "clients" in address
    ]
    same("clients", clients, ["0.0.0.0/0"])
    others = [
        planned[address]["cidr_ipv4"]
        for address in addresses(planned, "aws_vpc_security_group_ingress_rule")
        if "clients" not in address
    ]
    same("tasks take the load balancer alone", others, [None, None])
    service = planned["aws_ecs_service.weir"]
    same("service", (service["desired_count"], service["deployment_minimum_healthy_percent"]), (2, 100))
    same("network", service["network_configuration"][0]["assign_public_ip"], False)
    same("circuit breaker", service["deployment_circuit_breaker"][0], {"enable": True, "rollback": True})
    policy = json.loads(planned["aws_iam_role_policy.secrets"]["policy"])["Statement"]
    same(
        "rights",
        [(one["Action"], one["Resource"]) for one in policy],
        [("secretsmanager:GetSecretValue", ["aws_secretsmanager_secret.arn"])],
    )
    same("scaling", planned["aws_appautoscaling_target.weir"]["max_capacity"], 10)

    more = AWS | {
        "certificate_arn": "arn:aws:acm:a",
        "http2": True,
        "secrets": {"REDIS_URL": SECRET},
        "client_cidrs": ["203.0.113.0/24"],
        "internal": True,
    }
    planned = plan("aws", folder, more, EXAMPLES[1])
    listener = planned["aws_lb_listener.weir"]
    same(
        "TLS",
        (listener["protocol"], listener["certificate_arn"], listener["alpn_policy"]),
        ("TLS", "arn:aws:acm:a", "HTTP2Preferred"),
    )
    same("idle", listener["tcp_idle_timeout_seconds"], None)
    same("internal", planned["aws_lb.weir"]["internal"], True)
    weir = json.loads(planned["aws_ecs_task_definition.weir"]["container_definitions"])[1]
    same("secrets", weir["secrets"], [{"name": "REDIS_URL", "valueFrom": SECRET}])
    policy = json.loads(planned["aws_iam_role_policy.secrets"]["policy"])["Statement"]
    same("rights with secrets", policy[0]["Resource"], ["aws_secretsmanager_secret.arn", SECRET])
    checks.refused("drain", "below 120 seconds", "aws", folder, AWS, EXAMPLES[1].replace("drain: 60s", "drain: 2m"))
    checks.refused(
        "no admin listener",
        "ports 8080, 8081, 9901",
        "aws",
        folder,
        AWS,
        EXAMPLES[1].replace("admin: 127.0.0.1:9901\n", ""),
    )


def google(checks):
    folder = "gcp/cloud-run"
    planned = plan("google", folder, GOOGLE, EXAMPLES[2])
    same = checks.same
    service = planned["google_cloud_run_v2_service.weir"]
    template = service["template"][0]
    container = template["containers"][0]
    same(
        "service",
        (service["location"], service["ingress"], service["deletion_protection"]),
        ("europe-west3", "INGRESS_TRAFFIC_ALL", True),
    )
    same("account", template["service_account"], "google_service_account.email")
    same("times", (template["timeout"], template["max_instance_request_concurrency"]), ("300s", 500))
    same(
        "instances",
        (template["scaling"][0]["min_instance_count"], template["scaling"][0]["max_instance_count"]),
        (2, 10),
    )
    same("container", (container["image"], container["args"]), (GOOGLE["image"], ["--config", "/etc/weir/weir.yaml"]))
    same("port", (container["ports"][0]["name"], container["ports"][0]["container_port"]), ("http1", 8080))
    same(
        "CPU",
        (container["resources"][0]["limits"], container["resources"][0]["cpu_idle"]),
        ({"cpu": "1", "memory": "1Gi"}, False),
    )
    for probe in ("startup_probe", "liveness_probe"):
        same(probe, container[probe][0]["http_get"][0]["port"], 8081)
        same(probe, container[probe][0]["http_get"][0]["path"], "/healthz")
    liveness = container["liveness_probe"][0]
    same("no restart while it drains", liveness["period_seconds"] * liveness["failure_threshold"] > 10, True)
    secret = template["volumes"][0]["secret"][0]
    item = (secret["items"][0]["path"], secret["items"][0]["version"])
    same("file", item, ("weir.yaml", "google_secret_manager_secret_version.version"))
    same(
        "mount",
        (container["volume_mounts"][0]["name"], container["volume_mounts"][0]["mount_path"]),
        ("config", "/etc/weir"),
    )
    same("stored", planned["google_secret_manager_secret_version.config"]["secret_data"], EXAMPLES[2])
    same("not public", addresses(planned, "google_cloud_run_v2_service_iam_member"), [])
    same("no network", template["vpc_access"], [])

    secrets = {"REDIS_URL": {"secret": "redis", "version": "3"}, "TOKEN": {"secret": "redis", "version": "4"}}
    more = GOOGLE | {
        "public": True,
        "http2": True,
        "secrets": secrets,
        "network": {"network": "net", "subnetwork": "sub"},
        "timeout": 3600,
    }
    planned = plan("google", folder, more, EXAMPLES[2])
    template = planned["google_cloud_run_v2_service.weir"]["template"][0]
    same("HTTP/2", template["containers"][0]["ports"][0]["name"], "h2c")
    same("network", template["vpc_access"][0]["network_interfaces"][0]["subnetwork"], "sub")
    variables = [(one["name"], one["value_source"][0]["secret_key_ref"][0]) for one in template["containers"][0]["env"]]
    same("variables", variables, list(secrets.items()))
    invoker = planned["google_cloud_run_v2_service_iam_member.public[0]"]
    same("public", (invoker["member"], invoker["role"]), ("allUsers", "roles/run.invoker"))
    same(
        "rights",
        addresses(planned, "google_secret_manager_secret_iam_member")[1:],
        ['google_secret_manager_secret_iam_member.secrets["redis"]'],
    )
    checks.refused("drain", "below 10 seconds", "google", folder, GOOGLE, EXAMPLES[0])


def mirror(folder):
    """A folder from which OpenTofu and Terraform install the provider under the names of the real ones, and the file that says so."""
    system = "_".join(
        subprocess.run(["go", "env", "GOOS", "GOARCH"], check=True, capture_output=True, text=True).stdout.split()
    )
    for host in ("registry.opentofu.org", "registry.terraform.io"):
        for name, version in VERSIONS.items():
            place = Path(folder) / host / "hashicorp" / name / version / system
            place.mkdir(parents=True)
            (place / f"terraform-provider-{name}_v{version}").symlink_to(Path(sys.argv[2]).resolve())
    settings = Path(folder) / "settings.tfrc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{folder}"\n  }}\n}}\n')
    return settings


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TF_CLI_CONFIG_FILE"] = str(mirror(folder))
        os.environ["WEIR_PROVIDER_SCHEMA"] = str(ROOT / "check/schema.json")
        failed = 0
        for name, compare in (("azure/container-apps", azure), ("aws/fargate", aws), ("gcp/cloud-run", google)):
            checks = Checks()
            try:
                compare(checks)
            except Refused as refused:
                checks.failed += 1
                print(f"{name}: {refused}")
            print(f"{name}: {checks.count} compared, {checks.failed} wrong")
            failed += checks.failed
    sys.exit(bool(failed))


main()
