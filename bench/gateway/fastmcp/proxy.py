"""The proxy of FastMCP, as it comes or with one session to the upstream.

    python proxy.py fresh|kept UPSTREAM PORT

`fresh` is `create_proxy` with its defaults: a new session to the upstream for every request. `kept`
hands it a client that is connected, whose session all requests share.
"""

import asyncio
import sys

from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy


# Callers keep their connections while others have their turns.
KEEP_ALIVE_SECONDS = 3_600


async def serve(proxy: FastMCP, port: int) -> None:
    await proxy.run_async(
        transport="http",
        host="127.0.0.1",
        port=port,
        path="/mcp",
        log_level="warning",
        show_banner=False,
        uvicorn_config={"timeout_keep_alive": KEEP_ALIVE_SECONDS},
    )


async def main(how: str, upstream: str, port: int) -> None:
    if how == "fresh":
        await serve(create_proxy(upstream, name="proxy"), port)
        return
    async with Client(upstream) as client:
        await serve(create_proxy(client, name="proxy"), port)


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
