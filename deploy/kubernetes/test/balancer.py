#!/usr/bin/env python3
"""Plays a load balancer: balancer.py PREFIX POD, with KUBE_TMP of `scripts/kube`

Each Service of the type LoadBalancer gets an address PREFIX.N, in its status. What arrives at its ports is sent on to the address POD, at the
ports that the Service says. Addresses have to be those of this machine.
"""

import asyncio
import contextlib
import functools
import sys

from api import CORE, Refused, call

PREFIX, POD = sys.argv[1:3]
EVERY = 0.2
MERGE = "application/merge-patch+json"


# The event loop itself does not keep tasks.
TASKS = set()


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def forward(target, reader, writer):
    task = asyncio.current_task()
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    try:
        pod_reader, pod_writer = await asyncio.open_connection(POD, target)
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, pod_writer), copy(pod_reader, writer), return_exceptions=True)
    for one in (writer, pod_writer):
        one.close()


class Balancer:
    def __init__(self):
        # By uid of a Service: its address, and the servers of its ports.
        self.addresses, self.servers = {}, {}

    async def follow(self):
        listed = await asyncio.to_thread(call, "GET", f"{CORE}/services")
        wanted = {}
        for service in listed["items"]:
            if service["spec"]["type"] == "LoadBalancer":
                uid = service["metadata"]["uid"]
                address = self.addresses.setdefault(uid, f"{PREFIX}.{len(self.addresses) + 1}")
                wanted |= {(address, port["port"], port["targetPort"]): service for port in service["spec"]["ports"]}
        for key in [key for key in self.servers if key not in wanted]:
            self.servers.pop(key).close()
        for key, service in wanted.items():
            address, port, target = key
            if key not in self.servers:
                serve = functools.partial(forward, target)
                self.servers[key] = await asyncio.start_server(serve, address, port)
            ingress = service["status"]["loadBalancer"].get("ingress", [])
            if [one["ip"] for one in ingress] != [address]:
                meta = service["metadata"]
                path = f"{CORE}/namespaces/{meta['namespace']}/services/{meta['name']}/status"
                status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
                await asyncio.to_thread(call, "PATCH", path, status, MERGE)


async def main():
    balancer = Balancer()
    while True:
        try:
            await balancer.follow()
        except (OSError, Refused) as error:
            print(f"balancer: {error}", file=sys.stderr, flush=True)
        await asyncio.sleep(EVERY)


asyncio.run(main())
