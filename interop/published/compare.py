"""Compares published MCP servers with the same servers behind `handback wrap`.

    python compare.py HANDBACK NODE PACKAGES SQLITE CHROMIUM [SERVER…]

SQLITE is `mcp-server-sqlite`, which needs an older `mcp` than the other servers.

Each server answers the same requests direct, through `handback wrap` with the handshake of 2025-11-25,
and through `handback wrap` with the newest revision that both sides speak. Every answer is one check.
The client is the published Python package `mcp`. A line `ok NAME` or `not ok NAME` is printed for every
check, and `N passed, N failed` at the end.
"""

import base64
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import anyio
from mcp import Client, StdioServerParameters

HERE = Path(__file__).parent
# A browser that starts on a loaded machine takes the longest.
REQUEST_SECONDS_MAX = 90
SERVER_SECONDS_MAX = 240

# A page whose screenshot is larger than the text budget: noise does not compress.
PAGE = b"""<!doctype html><title>Noise</title><h1>Noise</h1><canvas id=c width=600 height=400></canvas>
<script>
const context = document.getElementById('c').getContext('2d');
const image = context.createImageData(600, 400);
let seed = 1;
for (let at = 0; at < image.data.length; at++) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  image.data[at] = at % 4 == 3 ? 255 : seed >>> 24;
}
context.putImageData(image, 0, 0);
</script>"""
# Smaller screenshots would not show that images have a budget of their own.
IMAGE_BYTES_MIN = 200_000

# Tools that Handback adds.
OWN_TOOLS = {"mcp_aql_read", "mcp_aql_create"}
# What a newer revision adds to a result.
REVISION_MEMBERS = ("resultType", "ttlMs", "cacheScope")

Call = tuple[str, dict[str, Any]]


@dataclass
class Server:
    name: str
    command: list[str]
    calls: list[Call]
    # The numbers of the calls that have to fail, from 1.
    failing: frozenset[int] = frozenset()
    # Brings what a server may use into its first state.
    prepare: Callable[[], None] = lambda: None
    # A tool whose result has to hold an image.
    screenshot: str | None = None
    folder: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        pass


def plain(result: Any) -> dict[str, Any]:
    """The result as JSON, without what a gateway or a newer revision adds."""
    value = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in REVISION_MEMBERS:
        value.pop(name, None)
    value.pop("_meta", None)
    return value


def plain_tools(tools: Any) -> dict[str, Any]:
    value = {tool["name"]: tool for tool in plain(tools)["tools"]}
    for tool in value.values():
        # Widened for held results.
        tool.pop("outputSchema", None)
    return value


async def answers(server: Server, command: list[str], mode: str) -> dict[str, Any]:
    """The answers to all requests, by a name for each."""
    server.prepare()
    environment = {**os.environ, **server.environment}
    child = StdioServerParameters(
        command=command[0], args=command[1:], env=environment, cwd=server.folder
    )
    found: dict[str, Any] = {}
    with anyio.fail_after(SERVER_SECONDS_MAX):
        client = Client(child, mode=mode, read_timeout_seconds=REQUEST_SECONDS_MAX, cache=None)
        async with client:
            found["tools/list"] = plain_tools(await client.list_tools())
            for number, (tool, arguments) in enumerate(server.calls, 1):
                result = await client.call_tool(tool, arguments)
                if result.is_error != (number in server.failing):
                    raise RuntimeError(f"{tool}: {result}"[:400])
                found[f"{number} {tool}"] = plain(result)
    return found


def without_times(text: str) -> str:
    """Playwright names files by the time."""
    return re.sub(r"\d{4}-\d\d-\d\dT[-\d:]+Z?", "TIME", text)


def image_of(result: dict[str, Any]) -> bytes:
    blocks = [block for block in result.get("content", []) if block["type"] == "image"]
    return base64.b64decode(blocks[0]["data"]) if blocks else b""


class Tally:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def check(self, name: str, good: bool, why: str = "") -> None:
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok' if good else 'not ok'} {name}" + ("" if good else f": {why}"), flush=True)


def compare(tally: Tally, server: Server, way: str, direct: Any, through: Any) -> None:
    for name, expected in direct.items():
        label, found = f"{server.name}: {way}: {name}", through.get(name)
        if name == "tools/list":
            found = {key: tool for key, tool in (found or {}).items() if key not in OWN_TOOLS}
        first, second = (without_times(json.dumps(side, sort_keys=True)) for side in (expected, found))
        at = next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), len(first))
        near = slice(max(at - 60, 0), at + 200)
        tally.check(label, first == second, f"{first[near]!r} is {second[near]!r}")
        if server.screenshot and name.endswith(server.screenshot):
            size = len(image_of(found or {}))
            tally.check(f"{label}: image", size >= IMAGE_BYTES_MIN, f"{size} bytes")


async def run(tally: Tally, handback: str, server: Server) -> None:
    data = tempfile.mkdtemp(prefix="handback-published-")
    # A program may start slowly: the gateway has to wait as the client does.
    wrap = [handback, "wrap", "--data", data, "--", *server.command]
    try:
        direct = await answers(server, server.command, "legacy")
        for way, mode in (("wrap", "legacy"), ("wrap, newest", "auto")):
            try:
                compare(tally, server, way, direct, await answers(server, wrap, mode))
            except Exception as error:  # One broken way does not hide the others.
                tally.check(f"{server.name}: {way}", False, repr(error))
    except Exception as error:
        tally.check(f"{server.name}: direct", False, repr(error))
    finally:
        shutil.rmtree(data, ignore_errors=True)


def servers(
    node: str, packages: str, sqlite: str, chromium: str, url: str, folder: Path
) -> list[Server]:
    python, programs = sys.executable, Path(sys.executable).parent
    database, repository = folder / "notes.db", folder / "repository"

    def fresh_database() -> None:
        database.unlink(missing_ok=True)

    def fresh_repository() -> None:
        shutil.rmtree(repository, ignore_errors=True)
        repository.mkdir()
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        when = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}

        def git(*arguments: str) -> None:
            command = ["git", *author, "-C", str(repository), *arguments]
            subprocess.run(command, check=True, env={**os.environ, **when}, stdout=subprocess.DEVNULL)

        git("init", "--quiet", "--initial-branch=main")
        (repository / "a.txt").write_text("one\n" * 3000)
        git("add", ".")
        git("commit", "--quiet", "-m", "one")
        (repository / "a.txt").write_text("two\n" * 3)

    browser = {"HOME": str(folder), "CHROME_DEVTOOLS_MCP_NO_USAGE_STATISTICS": "1"}
    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    switches += ["--disable-component-update", "--disable-sync", "--no-first-run"]
    config = folder / "playwright.json"
    launch = {"executablePath": chromium, "headless": True, "args": switches, "chromiumSandbox": False}
    options = {"browser": {"browserName": "chromium", "isolated": True, "launchOptions": launch}}
    config.write_text(json.dumps(options))
    hello = {"name": "Ada"}
    return [
        Server(
            "sqlite",
            [sqlite, "--db-path", str(database)],
            [
                ("create_table", {"query": "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"}),
                ("write_query", {"query": "INSERT INTO notes (text) VALUES ('one'), ('zwei')"}),
                ("read_query", {"query": "SELECT * FROM notes"}),
                ("list_tables", {}),
                ("describe_table", {"table_name": "notes"}),
                ("read_query", {"query": "DELETE FROM notes"}),
            ],
            failing=frozenset(),
            prepare=fresh_database,
        ),
        Server(
            "fetch",
            [str(programs / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"],
            [
                ("fetch", {"url": url}),
                ("fetch", {"url": url, "raw": True, "max_length": 100}),
                ("fetch", {"url": "no address"}),
            ],
            failing=frozenset({3}),
        ),
        Server(
            "git",
            [str(programs / "mcp-server-git"), "--repository", str(repository)],
            [
                ("git_status", {"repo_path": str(repository)}),
                ("git_log", {"repo_path": str(repository)}),
                ("git_diff_unstaged", {"repo_path": str(repository), "context_lines": 0}),
                ("git_show", {"repo_path": str(repository), "revision": "nowhere"}),
            ],
            failing=frozenset({4}),
            prepare=fresh_repository,
        ),
        Server(
            "playwright",
            [node, f"{packages}/@playwright/mcp/cli.js", "--config", str(config)],
            [
                ("browser_navigate", {"url": url}),
                ("browser_take_screenshot", {"type": "png"}),
                ("browser_close", {}),
            ],
            screenshot="browser_take_screenshot",
            environment=browser,
            folder=folder,
        ),
        Server(
            "chrome-devtools",
            [
                node,
                f"{packages}/chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js",
                "--headless",
                "--isolated",
                f"--executablePath={chromium}",
                *(f"--chromeArg={switch}" for switch in switches),
            ],
            [("new_page", {"url": url}), ("take_screenshot", {"format": "png", "pageId": 2})],
            screenshot="take_screenshot",
            environment=browser,
        ),
        Server(
            "fastmcp, starts after 15 s",
            [python, str(HERE / "slow_server.py"), "--start-seconds", "15"],
            [("greet", hello)],
        ),
        Server(
            "fastmcp, silent on server/discover",
            [python, str(HERE / "slow_server.py"), "--silent-on", "server/discover"],
            [("greet", hello)],
        ),
    ]


def main() -> int:
    handback, node, packages, sqlite, chromium, *only = sys.argv[1:]
    page = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="handback-published-") as folder:
        url = f"http://127.0.0.1:{page.server_port}/"
        for server in servers(node, packages, sqlite, chromium, url, Path(folder)):
            if not only or server.name in only:
                anyio.run(run, tally, handback, server)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return int(tally.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
