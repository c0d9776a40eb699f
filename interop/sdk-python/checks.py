"""The published Python client of MCP against `handback serve --demo`.

    python checks.py URL PROGRAM FOLDER

Every check runs four times: over HTTP, at URL, and over the standard streams of PROGRAM, which
keeps its data in FOLDER; on either, once with the newest revision of the protocol that the client
negotiates, and once with the handshake of the older ones. Each prints one line, `ok NAME` or
`not ok NAME`; what went wrong follows on stderr.
"""

import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClaimContext, ClientExtension, ResultClaim
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    Request,
    RequestParams,
    Result,
    TextContent,
)
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

NEWEST = "2026-07-28"
OLDER = "2025-11-25"
INVALID_PARAMS = -32602

CUSTOMER = 7
PAGE_SIZE = 7
NEXT_CURSOR = "dev.handback/nextCursor"
REASON = "dev.handback/reason"
REPLAYED = "dev.handback/replayed"
PROTOCOL_TASKS = "io.modelcontextprotocol/tasks"

CATEGORIES = 10
SHORT_PAUSE_MS = 20
LONG_PAUSE_MS = 6_000

# No check takes a tenth of it, and a walk of more pages does not end.
CHECK_SECONDS_MAX = 60
PAGES_MAX = 200

# ---------------------------------------------------------------------------
# The Tasks extension, as the client lets its users write extensions


class Wire(Result):
    """A result whose members are written as the protocol writes them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class CreatedTask(Wire):
    result_type: Literal["task"]
    task_id: str
    status: str
    poll_interval_ms: int | None = None


class TaskState(Wire):
    result_type: Literal["complete"]
    task_id: str
    status: str
    poll_interval_ms: int | None = None
    result: CallToolResult | None = None
    error: dict[str, Any] | None = None


class Acknowledged(Wire):
    result_type: Literal["complete"]


class TaskParams(RequestParams):
    task_id: str = Field(serialization_alias="taskId")


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class Tasks(ClientExtension):
    """Waits for a task in the place of the caller, and keeps what it saw."""

    identifier = PROTOCOL_TASKS

    def __init__(self) -> None:
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.wait)]

    async def wait(self, created: CreatedTask, context: ClaimContext) -> CallToolResult:
        self.seen.append(created.status)
        while True:
            state = await get_task(context.session, created.task_id)
            if state.status != self.seen[-1]:
                self.seen.append(state.status)
            if state.status != "working":
                break
            await anyio.sleep((state.poll_interval_ms or 100) / 1_000)
        assert state.result is not None, state
        return state.result


async def get_task(session: Any, task_id: str) -> TaskState:
    return await session.send_request(GetTask(params=TaskParams(task_id=task_id)), TaskState)


# ---------------------------------------------------------------------------
# What checks have in common


@dataclass
class Setting:
    """One way to reach the server, and what the person at the client does."""

    label: str
    server: Any
    revision: str
    orders: list[int]
    asked: list[str] = field(default_factory=list)
    answer: ElicitResult | None = None
    tasks: Tasks = field(default_factory=Tasks)

    @property
    def is_newest(self) -> bool:
        return self.revision == NEWEST

    def connect(self) -> Client:
        return Client(
            self.server,
            mode="auto" if self.is_newest else "legacy",
            elicitation_callback=self.elicit,
            extensions=[self.tasks],
            read_timeout_seconds=CHECK_SECONDS_MAX,
        )

    async def elicit(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        assert self.answer is not None, f"nobody expected {params.message}"
        properties = params.requested_schema["properties"]
        assert sorted(properties) == ["confirm", "reason"], properties
        return self.answer

    def order(self) -> int:
        """One that nobody has refunded."""
        return self.orders.pop()


def accepted(reason: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"confirm": True, "reason": reason})


def text(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent), block
    return block.text


def value(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text(result)
    assert result.structured_content is not None, result
    return result.structured_content


async def envelope(client: Client, operation: str, **arguments: Any) -> dict[str, Any]:
    """What MCP-AQL answers."""
    result = await client.call_tool("mcp_aql_read", {"operation": operation, **arguments})
    assert not result.is_error, text(result)
    answer = json.loads(text(result))
    assert answer["success"] is True, answer
    return answer["data"]


async def orders_of_walk(client: Client) -> list[list[int]]:
    """The ids of the customer's orders, page by page, from the paginated tool."""
    pages: list[list[int]] = []
    arguments: dict[str, Any] = {"customer": CUSTOMER, "page_size": PAGE_SIZE}
    for _ in range(PAGES_MAX):
        result = await client.call_tool("shop_orders", arguments)
        items = value(result)["items"]
        assert all(item["customer_id"] == CUSTOMER for item in items), items
        pages.append([item["id"] for item in items])
        cursor = (result.meta or {}).get(NEXT_CURSOR)
        if cursor is None:
            return pages
        arguments["__cursor"] = cursor
    raise AssertionError(f"the walk has more than {PAGES_MAX} pages")


async def orders_of_query(client: Client) -> list[list[int]]:
    """The same from MCP-AQL, by the cursors of its answers."""
    pages: list[list[int]] = []
    params: dict[str, Any] = {
        "first": PAGE_SIZE,
        "filter": {"customer_id": CUSTOMER},
        "sort": {"field": "id", "order": "desc"},
        "include_total": True,
    }
    for _ in range(PAGES_MAX):
        data = await envelope(client, "list_elements", element_type="orders", params=params)
        pages.append([item["id"] for item in data["items"]])
        info = data["pageInfo"]
        assert info["hasPreviousPage"] is (len(pages) > 1), info
        if not info["hasNextPage"]:
            assert info["totalCount"] == sum(map(len, pages)), info
            return pages
        params["after"] = info["endCursor"]
    raise AssertionError(f"the walk has more than {PAGES_MAX} pages")


def assert_walk(pages: list[list[int]]) -> None:
    assert len(pages) > 2, pages
    assert all(len(page) == PAGE_SIZE for page in pages[:-1]), pages
    assert 0 < len(pages[-1]) <= PAGE_SIZE, pages
    ids = sum(pages, [])
    assert ids == sorted(set(ids), reverse=True), ids


async def refused(call: Awaitable[Any], code: int, reason: str) -> None:
    """The server answers with an error of the protocol."""
    try:
        result = await call
    except MCPError as error:
        assert error.error.code == code, error.error
        assert (error.error.data or {}).get("reason") == reason, error.error
    else:
        raise AssertionError(f"it was not refused: {result}")


# ---------------------------------------------------------------------------
# The checks

Check = Callable[[Setting, Client], Awaitable[None]]
CHECKS: list[tuple[str, Check, str | None]] = []


def check(function: Check) -> Check:
    CHECKS.append((name_of(function), function, None))
    return function


def check_of(revision: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS.append((name_of(function), function, revision))
        return function

    return register


def name_of(function: Check) -> str:
    return function.__name__.replace("_", " ")


@check
async def the_revision_is_negotiated(setting: Setting, client: Client) -> None:
    assert client.protocol_version == setting.revision
    assert client.server_info is not None and client.server_info.name == "handback"


@check
async def every_list_ends(_setting: Setting, client: Client) -> None:
    async def all_of(ask: Callable[..., Awaitable[Any]], member: str) -> list[str]:
        names: list[str] = []
        cursor = None
        for _ in range(PAGES_MAX):
            page = await ask(cursor=cursor)
            names += [getattr(item, "uri", None) or item.name for item in getattr(page, member)]
            cursor = page.next_cursor
            if cursor is None:
                return names
        raise AssertionError("the list does not end")

    tools = await all_of(client.list_tools, "tools")
    expected = ["mcp_aql_create", "mcp_aql_read", "shop_orders", "shop_refund", "shop_report"]
    assert sorted(tools) == expected, tools
    assert await all_of(client.list_prompts, "prompts") == ["shop_letter"]
    assert await all_of(client.list_resources, "resources") == ["shop://schema"]


@check
async def a_prompt_and_a_resource_are_read(_setting: Setting, client: Client) -> None:
    prompt = await client.get_prompt("shop_letter", {"customer": str(CUSTOMER)})
    assert "customer 7" in prompt.messages[0].content.text, prompt
    resource = await client.read_resource("shop://schema")
    assert "CREATE TABLE orders" in resource.contents[0].text, resource


@check
async def a_tool_is_walked_page_by_page(_setting: Setting, client: Client) -> None:
    assert_walk(await orders_of_walk(client))


@check
async def a_collection_is_walked_page_by_page(_setting: Setting, client: Client) -> None:
    pages = await orders_of_query(client)
    assert_walk(pages)
    assert pages == await orders_of_walk(client)


@check
async def a_collection_describes_itself(_setting: Setting, client: Client) -> None:
    data = await envelope(client, "introspect", params={"query": "operations"})
    assert data["_protocol"]["version"] == "1.0.0-draft", data
    assert "list_elements" in [operation["name"] for operation in data["operations"]], data


@check
async def a_cursor_that_is_not_of_this_walk_is_refused(_setting: Setting, client: Client) -> None:
    first = await client.call_tool("shop_orders", {"customer": CUSTOMER})
    cursor = (first.meta or {})[NEXT_CURSOR]
    edited = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
    for customer, presented in [(CUSTOMER, edited), (CUSTOMER + 1, cursor)]:
        arguments = {"customer": customer, "__cursor": presented}
        result = await client.call_tool("shop_orders", arguments)
        assert result.is_error and text(result) == "invalid cursor", result
        assert result.meta == {REASON: "invalid"}, result
    again = await client.call_tool("shop_orders", {"customer": CUSTOMER, "__cursor": cursor})
    assert value(again)["items"], again


@check
async def a_question_is_answered(setting: Setting, client: Client) -> None:
    order = setting.order()
    setting.answer = accepted("it broke")
    result = value(await client.call_tool("shop_refund", {"order": order}))
    assert result["refunded"] is True and result["order"] == order, result
    assert len(setting.asked) == 1, setting.asked
    assert setting.asked[0].startswith(f"Refund order {order}: "), setting.asked
    again = await client.call_tool("shop_refund", {"order": order})
    assert again.is_error and text(again) == "the order was refunded already", again


@check
async def a_question_is_declined(setting: Setting, client: Client) -> None:
    order = setting.order()
    setting.answer = ElicitResult(action="decline")
    result = value(await client.call_tool("shop_refund", {"order": order}))
    assert result == {"refunded": False, "order": order}, result
    assert len(setting.asked) == 1, setting.asked


@check_of(NEWEST)
async def the_state_of_a_question_is_used_once(setting: Setting, client: Client) -> None:
    order = {"order": setting.order()}
    session = client.session
    first = await session.call_tool("shop_refund", order, allow_input_required=True)
    assert isinstance(first, InputRequiredResult), first
    assert first.request_state and list(first.input_requests or {}) == ["refund"], first

    def retry(state: str, reason: str, **arguments: int) -> Awaitable[CallToolResult]:
        # What was not asked for is ignored.
        responses = {"refund": accepted(reason), "more": accepted("nobody asked")}
        arguments = {**order, **arguments}
        return session.call_tool(
            "shop_refund", arguments, input_responses=responses, request_state=state
        )

    state = first.request_state
    edited = state[:-2] + ("A" if state[-2] != "A" else "B") + state[-1]
    await refused(retry(edited, "it broke"), INVALID_PARAMS, "invalid")
    await refused(retry(state, "it broke", order=setting.order()), INVALID_PARAMS, "invalid")
    done = await retry(state, "it broke")
    assert value(done)["refunded"] is True, done
    repeated = await retry(state, "it broke")
    assert value(repeated) == value(done), repeated
    assert (repeated.meta or {}).get(REPLAYED) is True, repeated
    await refused(retry(state, "another reason"), INVALID_PARAMS, "invalid")


@check_of(NEWEST)
async def a_long_call_becomes_a_task(setting: Setting, client: Client) -> None:
    assert (client.server_capabilities.extensions or {}).get(PROTOCOL_TASKS) is not None
    result = value(await client.call_tool("shop_report", {"pause_ms": SHORT_PAUSE_MS}))
    assert_report(result)
    assert setting.tasks.seen == ["working", "completed"], setting.tasks.seen


@check_of(NEWEST)
async def a_task_is_cancelled(_setting: Setting, client: Client) -> None:
    arguments = {"pause_ms": LONG_PAUSE_MS}
    task = await client.session.call_tool("shop_report", arguments, allow_claimed=True)
    assert isinstance(task, CreatedTask), task
    cancel = CancelTask(params=TaskParams(task_id=task.task_id))
    await client.session.send_request(cancel, Acknowledged)
    while (state := await get_task(client.session, task.task_id)).status == "working":
        await anyio.sleep(0.05)
    assert state.status == "cancelled" and state.result is None, state


@check_of(NEWEST)
async def a_task_that_is_not_there_is_refused(_setting: Setting, client: Client) -> None:
    try:
        state = await get_task(client.session, "nothing")
    except MCPError as error:
        assert error.error.code == INVALID_PARAMS, error.error
    else:
        raise AssertionError(f"it is there: {state}")


@check_of(OLDER)
async def a_long_call_tells_how_far_it_is(_setting: Setting, client: Client) -> None:
    told: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None, _message: str | None) -> None:
        told.append((done, total))

    arguments = {"pause_ms": SHORT_PAUSE_MS}
    result = await client.call_tool("shop_report", arguments, progress_callback=progress)
    assert_report(value(result))
    # The client calls back in tasks of their own, which may end after the call and in any order.
    while len(told) < CATEGORIES:
        await anyio.sleep(0.01)
    assert sorted(told) == [(done + 1, CATEGORIES) for done in range(CATEGORIES)], told


def assert_report(report: dict[str, Any]) -> None:
    parts = report["categories"]
    assert len(parts) == CATEGORIES, report
    assert report["total_cents"] == sum(part["total_cents"] for part in parts) > 0, report


# ---------------------------------------------------------------------------


async def free_orders(url: str) -> list[int]:
    """Orders that can be refunded, enough for all."""
    async with Client(url) as client:
        params = {"first": 100, "filter": {"status": "delivered"}}
        data = await envelope(client, "list_elements", element_type="orders", params=params)
        return [item["id"] for item in data["items"]]


async def run(setting: Setting, name: str, function: Check) -> bool:
    setting.asked, setting.answer, setting.tasks = [], None, Tasks()
    try:
        with anyio.fail_after(CHECK_SECONDS_MAX):
            async with setting.connect() as client:
                await function(setting, client)
    except Exception:
        print(f"not ok {setting.label}: {name}", flush=True)
        traceback.print_exc()
        return False
    print(f"ok {setting.label}: {name}", flush=True)
    return True


async def main(url: str, program: str, folder: str) -> int:
    orders = await free_orders(url)
    arguments = ["serve", "--demo", "--stdio", "--data", folder]
    child = StdioServerParameters(command=program, args=arguments, env={"HOME": folder})
    passed = True
    for transport, server in [("http", url), ("stdio", child)]:
        for revision in [NEWEST, OLDER]:
            setting = Setting(f"{transport} {revision}", server, revision, orders)
            for name, function, only in CHECKS:
                if only in (None, revision):
                    passed &= await run(setting, name, function)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main, *sys.argv[1:]))
