"""Drives a server with the published Python client of MCP, as a plan says.

    python client.py PLAN FOLDER REVISION URL
    python client.py PLAN FOLDER REVISION COMMAND ARGUMENT…

PLAN is a file with the requests in their order, one at a time; `{folder}` in it stands for FOLDER.
REVISION is `legacy` (the handshake of 2025-11-25) or `auto` (the newest that both sides speak; without
the steps that only the older ones have). What
the server answers does not matter here: somebody else records it. An answer that the client does not
take is a failure.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    Root,
    TextContent,
)

# No request takes a tenth of it.
REQUEST_SECONDS_MAX = 30

Params = dict[str, Any]
REQUESTS: dict[str, Callable[[Client, Params], Awaitable[Any]]] = {
    "completion/complete": lambda client, params: client.complete(
        PromptReference(name=params["ref"]["name"]), params["argument"], params.get("context")
    ),
    "logging/setLevel": lambda client, params: client.set_logging_level(params["level"]),
    "ping": lambda client, _: client.send_ping(),
    "prompts/get": lambda client, params: client.get_prompt(
        params["name"], params.get("arguments")
    ),
    "prompts/list": lambda client, _: client.list_prompts(),
    "resources/list": lambda client, _: client.list_resources(),
    "resources/read": lambda client, params: client.read_resource(params["uri"]),
    "resources/subscribe": lambda client, params: client.subscribe_resource(params["uri"]),
    "resources/templates/list": lambda client, _: client.list_resource_templates(),
    "resources/unsubscribe": lambda client, params: client.unsubscribe_resource(params["uri"]),
    "tools/list": lambda client, _: client.list_tools(),
}


async def call_tool(client: Client, params: Params, has_progress: bool) -> Any:
    async def progress(_done: float, _total: float | None, _message: str | None) -> None:
        pass

    callback = progress if has_progress else None
    return await client.call_tool(params["name"], params["arguments"], progress_callback=callback)


async def elicit(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada", "check": True, "integer": 7})


async def sample(_context: Any, _params: Any) -> CreateMessageResult:
    content = TextContent(type="text", text="a word")
    return CreateMessageResult(role="assistant", content=content, model="none")


async def run(client: Client, step: dict[str, Any]) -> None:
    method, params = step["method"], step.get("params", {})
    try:
        if method == "tools/call":
            await call_tool(client, params, step.get("progress", False))
        else:
            await REQUESTS[method](client, params)
    except MCPError:
        # The server's answer.
        pass


async def main(plan: str, folder: str, revision: str, server: str, *arguments: str) -> None:
    with open(plan, encoding="utf-8") as file:
        steps = json.loads(file.read().replace("{folder}", folder))

    async def roots(_context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=f"file://{folder}", name="folder")])

    is_url = server.startswith("http")
    # All of it: the client would pass on a few variables only.
    child = StdioServerParameters(command=server, args=list(arguments), env=dict(os.environ))
    client = Client(
        server if is_url else child,
        mode=revision,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        read_timeout_seconds=REQUEST_SECONDS_MAX,
        cache=None,
    )
    async with client:
        for step in steps:
            if revision == "legacy" or not step.get("legacy", False):
                await run(client, step)
    print(f"done: {len(steps)} requests")


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
