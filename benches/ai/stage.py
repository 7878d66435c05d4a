"""What stands on the stage: gateways for chat calls, and the provider behind them."""

import hashlib
import http.client
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))

from rig import GATEWAY_CORE, KEY, LOAD_CORE, ROOT, Rig, System, free_port, need, output

SYSTEMS = Path(__file__).with_name("systems")
# LiteLLM refuses to start with a key that could be guessed.
LITELLM_KEY = "sk-" + hashlib.sha256(b"bench").hexdigest()
AUTHORIZATION = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
# A model's name says what the simulator does.
NO_MODEL = "sim"
# Seconds that gateways may take to load what they are made of.
SLOW = 120


class Stage(Rig):
    """Starts gateways and providers, and notes their versions."""

    def __init__(self, weir: str) -> None:
        super().__init__(weir)
        self.versions: list[str] = []

    def provider(self) -> System:
        """nginx with fixed responses of OpenAI's and Anthropic's API."""
        self.upstream_port = free_port()
        conf = self.render(SYSTEMS / "upstream.conf", port=self.upstream_port)
        command = [need("nginx", "apt-get install nginx-light"), "-c", str(conf), "-g", "daemon off;"]
        return self.spawn("provider", command, LOAD_CORE, self.upstream_port)

    def simulator(self) -> System:
        """A model server that streams as the name of the model says."""
        self.upstream_port = free_port()
        command = [need("simulator", "scripts/bench builds it"), f"127.0.0.1:{self.upstream_port}"]
        return self.spawn("simulator", command, LOAD_CORE, self.upstream_port)

    def weir_with(self, kind: str, model: str = NO_MODEL) -> System:
        """Weir with `systems/weir-KIND.yaml`."""
        port = free_port()
        conf = self.configured(kind, port, model)
        return self.spawn(f"weir-{kind}", [self.weir, "--config", str(conf)], GATEWAY_CORE, port)

    def configured(self, kind: str, port: int, model: str = NO_MODEL) -> Path:
        """The configuration `systems/weir-KIND.yaml` for a port."""
        return self.render_weir(SYSTEMS / f"weir-{kind}.yaml", port, model=model)

    def litellm(self) -> System:
        program = need("litellm", "scripts/bench installs benches/ai/requirements.txt")
        port = free_port()
        conf = self.render(SYSTEMS / "litellm.yaml", port=port, key=LITELLM_KEY)
        settings = ["env", "LITELLM_LOG=ERROR", "LITELLM_MODE=PRODUCTION", "NO_PROXY=*"]
        command = [*settings, program, "--config", str(conf), "--host", "127.0.0.1", "--port", str(port)]
        self.versions.append("litellm " + output([program, "--version"]).split()[-1])
        return self.spawn("litellm", [*command, "--num_workers", "1"], GATEWAY_CORE, port, seconds=SLOW)

    def portkey(self) -> System:
        folder = ROOT / "benches/ai/portkey/node_modules/@portkey-ai/gateway"
        version = json.loads((folder / "package.json").read_text())["version"]
        port = free_port()
        command = [
            "env",
            "NODE_ENV=production",
            need("node", "Node.js 20 or newer"),
            str(folder / "build/start-server.js"),
        ]
        self.versions.append(f"portkey {version}")
        return self.spawn("portkey", [*command, f"--port={port}", "--headless"], GATEWAY_CORE, port, seconds=SLOW)


def chat(prompt_bytes: int, model: str = "bench") -> dict:
    """An operation of the load generator: a chat call whose prompt has so many bytes."""
    words = ("the quick brown fox jumps over the lazy dog " * (prompt_bytes // 44 + 1))[:prompt_bytes]
    call = {"model": model, "messages": [{"role": "user", "content": words}]}
    return {"method": "POST", "headers": AUTHORIZATION, "body": {"text": json.dumps(call)}}


def streamed(model: str) -> dict:
    """Chat calls of a simulated model, as a workload has them."""
    return {"model": model, "prompt": 150, "headers": {"Authorization": AUTHORIZATION["Authorization"]}}


def call(system: System, operation: dict, headers: dict | None = None) -> tuple[int, str]:
    """One call: status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=30)
    try:
        sent = operation["headers"] if headers is None else headers
        connection.request("POST", "/v1/chat/completions", operation["body"]["text"], sent)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
