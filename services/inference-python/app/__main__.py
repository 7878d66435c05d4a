"""`python -m app`: settings from the environment, then one uvicorn process (limits and counts are of the process)."""

import os
import signal
import socket
import sys

import uvicorn

from .main import create_app
from .settings import BadSetting, Settings, port

USAGE = 64  # EX_USAGE of sysexits.h


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            host, number = self.servers[0].sockets[0].getsockname()[:2]
            print(f"listening on http://{f'[{host}]' if ':' in host else host}:{number}", flush=True)


def main() -> None:
    try:
        settings = Settings.from_env(os.environ)
        number = port(os.environ.get("PORT", "8001"), "PORT")
    except BadSetting as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(USAGE)
    # uvicorn raises the signal again when it has stopped; a stop that was requested is a success.
    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, lambda *_: sys.exit(0))
    config = uvicorn.Config(
        create_app(settings),
        host=os.environ.get("HOST", "127.0.0.1"),
        port=number,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than gateways keep an idle connection, so that they close first
        timeout_graceful_shutdown=30,
        ws="none",
    )
    Server(config).run()


if __name__ == "__main__":
    main()
