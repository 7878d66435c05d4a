#!/usr/bin/env python3
"""The validations of the variables of modules, by OpenTofu or Terraform itself: variables.py TOFU

A module's variables.tf alone needs no provider. Each value below is given to the variable, and has to be accepted or refused.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIGEST = "@sha256:" + "0123456789abcdef" * 4
SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12Cd"

# Per module: what its required variables are set to, and of each variable, as the language has them, values to accept and to refuse.
PORTS = {
    "port": (["8080", "1025"], ["80", "65536"]),
    "health_port": (["9000"], ["80", "8080", "65536"]),
    "replicas": (["{ min = 2, max = 2 }"], ["{ min = 0, max = 5 }", "{ min = 3, max = 2 }"]),
}
MODULES = {
    "azure/container-apps": (
        {
            "location": '"westeurope"',
            "image": f'"example.azurecr.io/weir{DIGEST}"',
            "config": '"listen: 0.0.0.0:8080"',
            "secrets": '{ REDIS_URL = "https://example.vault.azure.net/secrets/redis-url" }',
            "key_vault_id": '"/subscriptions/0/resourceGroups/a/providers/Microsoft.KeyVault/vaults/example"',
        },
        PORTS
        | {
            "name": (['"w"', '"edge-1"', f'"{"a" * 32}"'], ['"Edge"', '"1edge"', '"edge-"', '"a--b"', f'"{"a" * 33}"']),
            "image": (
                [f'"ghcr.io/example/weir{DIGEST}"'],
                ['"example.azurecr.io/weir:latest"', f'"weir{DIGEST}"', f'"example.azurecr.io/weir{DIGEST}0"'],
            ),
            "secrets": (["{}"], ['{ redis-url = "https://a" }', '{ REDIS_URL = "redis://a" }']),
            "key_vault_id": ([], ["null"]),
            "cpu": (["0.25", "2"], ["0.3", "3"]),
            "concurrent_requests": (["1"], ["0"]),
            "internal": (["false"], ["true"]),
            "client_cidrs": (['["203.0.113.0/24"]'], ["[]", '["203.0.113.7"]', '["2001:db8::/32"]']),
            "log_days": (["730"], ["7"]),
        },
    ),
    "aws/fargate": (
        {
            "image": f'"example.com/weir{DIGEST}"',
            "shell_image": f'"example.com/busybox{DIGEST}"',
            "config": '"listen: 0.0.0.0:8080"',
            "vpc_id": '"vpc-1"',
            "balancer_subnet_ids": '["subnet-1", "subnet-2"]',
            "task_subnet_ids": '["subnet-3", "subnet-4"]',
        },
        PORTS
        | {
            "name": (['"w"', '"Edge-1"'], ['"edge_1"', '"-edge"', f'"{"a" * 23}"']),
            "image": ([], ['"weir"', '"example.com/weir:0.1.0"']),
            "shell_image": ([], ['"busybox:latest"']),
            "architecture": (['"ARM64"'], ['"arm64"']),
            "config": ([], [f'"{"a" * 65537}"']),
            "secrets": (
                [f'{{ REDIS_URL = "{SECRET}" }}'],
                ['{ REDIS_URL = "redis://a" }', f'{{ redis-url = "{SECRET}" }}'],
            ),
            "balancer_subnet_ids": ([], ['["subnet-1"]']),
            "task_subnet_ids": ([], ['["subnet-1"]']),
            "listener_port": (["80"], ["0"]),
            "idle_timeout": (["60", "6000"], ["59", "6001"]),
            "cpu": (["512"], ["500"]),
            "memory": (["8192"], ["1024", "8193"]),
            "target_cpu": (["90"], ["100"]),
            "log_days": (["7"], ["8"]),
        },
    ),
    "gcp/cloud-run": (
        {"region": '"europe-west3"', "image": f'"example.com/weir{DIGEST}"', "config": '"listen: 0.0.0.0:8080"'},
        PORTS
        | {
            "name": (['"ed"', f'"{"a" * 22}"'], ['"e"', '"Edge"', '"1edge"', f'"{"a" * 23}"']),
            "image": ([], ['"example.com/weir:latest"']),
            "config": ([], [f'"{"a" * 65537}"']),
            "secrets": (
                ['{ REDIS_URL = { secret = "redis", version = "3" } }'],
                [
                    '{ REDIS_URL = { secret = "redis", version = "latest" } }',
                    '{ "a b" = { secret = "redis", version = "1" } }',
                ],
            ),
            "ingress": (['"INGRESS_TRAFFIC_INTERNAL_ONLY"'], ['"all"']),
            "timeout": (["3600"], ["0", "3601"]),
            "cpu": (["8"], ["3"]),
            "memory": (['"512Mi"'], ['"1G"', '"0Gi"']),
            "concurrent_requests": (["1000"], ["0", "1001"]),
        },
    ),
}


def tests(required, values):
    """A file of tests: one for each value."""
    yield "variables {\n" + "".join(f"  {name} = {value}\n" for name, value in required.items()) + "}\n"
    yield 'run "required_alone" {\n  command = plan\n}\n'
    for name, (good, bad) in values.items():
        for number, value in enumerate(good):
            yield f'run "{name}_accepted_{number}" {{\n  command = plan\n  variables {{\n    {name} = {value}\n  }}\n}}\n'
        for number, value in enumerate(bad):
            yield (
                f'run "{name}_refused_{number}" {{\n  command = plan\n  variables {{\n    {name} = {value}\n  }}\n'
                f"  expect_failures = [var.{name}]\n}}\n"
            )


def main():
    code = 0
    for folder, (required, values) in MODULES.items():
        with tempfile.TemporaryDirectory() as tmp:
            (Path(tmp) / "variables.tf").write_text((ROOT / folder / "variables.tf").read_text())
            (Path(tmp) / "variables.tftest.hcl").write_text("\n".join(tests(required, values)))
            done = subprocess.run(
                [sys.argv[1], "test", "-no-color"], cwd=tmp, capture_output=True, text=True, check=False
            )
        lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["nothing said"]
        print(f"{folder}: {lines[-1]}")
        if done.returncode:
            code = 1
            print(done.stdout, done.stderr)
    sys.exit(code)


main()
