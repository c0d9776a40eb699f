// The published TypeScript clients of MCP against `handback serve --demo`.
//
//     node checks.js URL PROGRAM FOLDER
//
// Every check runs over HTTP, at URL, and over the standard streams of PROGRAM, which keeps its data
// in FOLDER; on either with the newest revision of the protocol that the client negotiates, with the
// handshake of the older ones, and with the client of the first generation, which knows only those.
// Each prints one line, `ok NAME` or `not ok NAME`; what went wrong follows on stderr.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import * as second from "@modelcontextprotocol/client";
import { StdioClientTransport as SecondStdio } from "@modelcontextprotocol/client/stdio";
import { Client as FirstClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as FirstStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import * as firstHttp from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const NEWEST = "2026-07-28";
const OLDER = "2025-11-25";
const INVALID_PARAMS = -32602;

const CUSTOMER = 7;
const PAGE_SIZE = 7;
const NEXT_CURSOR = "dev.handback/nextCursor";
const REASON = "dev.handback/reason";
const REPLAYED = "dev.handback/replayed";
const TASKS = "io.modelcontextprotocol/tasks";

const CATEGORIES = 10;
const SHORT_PAUSE_MS = 20;
const LONG_PAUSE_MS = 6_000;

// No check takes a tenth of it, and a walk of more pages does not end.
const CHECK_MS_MAX = 60_000;
const PAGES_MAX = 200;

// ---------------------------------------------------------------------------
// The clients, as far as they differ

const ABOUT = { name: "handback-interop", version: "1.0.0" };
const CAPABILITIES = { elicitation: { form: {} }, extensions: { [TASKS]: {} } };

const SECOND = {
  name: "client",
  Http: second.StreamableHTTPClientTransport,
  Stdio: SecondStdio,
  make(revision, elicit) {
    const mode = revision === NEWEST ? "auto" : "legacy";
    const options = { capabilities: CAPABILITIES, versionNegotiation: { mode } };
    const client = new second.Client(ABOUT, options);
    client.setRequestHandler("elicitation/create", elicit);
    return client;
  },
  call: (client, params, options) => client.callTool(params, options),
  revision: (client) => client.getNegotiatedProtocolVersion(),
};

/** The client tells its transport what was negotiated, if the transport wants to know. */
class ToldStdio extends FirstStdio {
  setProtocolVersion(version) {
    this.protocolVersion = version;
  }
}

const FIRST = {
  name: "sdk",
  Http: firstHttp.StreamableHTTPClientTransport,
  Stdio: ToldStdio,
  make(_revision, elicit) {
    const client = new FirstClient(ABOUT, { capabilities: { elicitation: { form: {} } } });
    client.setRequestHandler(ElicitRequestSchema, elicit);
    return client;
  },
  call: (client, params, options) => client.callTool(params, undefined, options),
  revision: (client) => client.transport.protocolVersion,
};

/** One way to reach the server, and what the person at the client does. */
class Setting {
  constructor(kind, transport, revision, orders) {
    Object.assign(this, { kind, revision, orders });
    this.makeTransport = transport;
    this.label = `${kind.name} ${transport.label} ${revision}`;
  }

  async connect() {
    this.asked = [];
    this.answer = undefined;
    const client = this.kind.make(this.revision, ({ params }) => {
      this.asked.push(params.message);
      const asked = Object.keys(params.requestedSchema.properties);
      assert.deepEqual(asked.sort(), ["confirm", "reason"]);
      assert.ok(this.answer, `nobody expected ${params.message}`);
      return this.answer;
    });
    const transport = this.makeTransport.open(this.kind);
    await client.connect(transport);
    this.client = client;
    this.received = tapped(transport);
  }

  call(name, args, options) {
    return this.kind.call(this.client, { name, arguments: args }, options);
  }

  /** One that nobody has refunded. */
  order() {
    return this.orders.pop();
  }
}

/** Every message that a transport delivers from now on. */
function tapped(transport) {
  const received = [];
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    received.push(message);
    return deliver?.(message, extra);
  };
  return received;
}

// ---------------------------------------------------------------------------
// What checks have in common

const accepted = (reason) => ({ action: "accept", content: { confirm: true, reason } });

const edited = (token) => {
  const at = token.length - 2;
  return token.slice(0, at) + (token[at] === "A" ? "B" : "A") + token.slice(at + 1);
};

function value(result) {
  assert.ok(!result.isError, JSON.stringify(result));
  assert.ok(result.structuredContent, JSON.stringify(result));
  return result.structuredContent;
}

/** What MCP-AQL answers. */
async function envelope(setting, operation, args) {
  const result = await setting.call("mcp_aql_read", { operation, ...args });
  assert.ok(!result.isError, JSON.stringify(result));
  const answer = JSON.parse(result.content[0].text);
  assert.equal(answer.success, true, JSON.stringify(answer));
  return answer.data;
}

/** The ids of the customer's orders, page by page, from the paginated tool. */
async function ordersOfWalk(setting) {
  const pages = [];
  const args = { customer: CUSTOMER, page_size: PAGE_SIZE };
  while (pages.length < PAGES_MAX) {
    const result = await setting.call("shop_orders", args);
    const { items } = value(result);
    assert.ok(items.every((item) => item.customer_id === CUSTOMER));
    pages.push(items.map((item) => item.id));
    args.__cursor = result._meta?.[NEXT_CURSOR];
    if (args.__cursor === undefined) return pages;
  }
  assert.fail(`the walk has more than ${PAGES_MAX} pages`);
}

/** The same from MCP-AQL, by the cursors of its answers. */
async function ordersOfQuery(setting) {
  const pages = [];
  const params = {
    first: PAGE_SIZE,
    filter: { customer_id: CUSTOMER },
    sort: { field: "id", order: "desc" },
    include_total: true,
  };
  while (pages.length < PAGES_MAX) {
    const data = await envelope(setting, "list_elements", { element_type: "orders", params });
    pages.push(data.items.map((item) => item.id));
    assert.equal(data.pageInfo.hasPreviousPage, pages.length > 1);
    if (!data.pageInfo.hasNextPage) {
      assert.equal(data.pageInfo.totalCount, pages.flat().length);
      return pages;
    }
    params.after = data.pageInfo.endCursor;
  }
  assert.fail(`the walk has more than ${PAGES_MAX} pages`);
}

function assertWalk(pages) {
  assert.ok(pages.length > 2, JSON.stringify(pages));
  const last = pages.at(-1);
  assert.ok(pages.slice(0, -1).every((page) => page.length === PAGE_SIZE), JSON.stringify(pages));
  assert.ok(last.length > 0 && last.length <= PAGE_SIZE, JSON.stringify(pages));
  const ids = pages.flat();
  assert.deepEqual(ids, [...new Set(ids)].sort((a, b) => b - a));
}

function assertReport(report) {
  assert.equal(report.categories.length, CATEGORIES);
  const sum = report.categories.reduce((sum, part) => sum + part.total_cents, 0);
  assert.ok(sum > 0);
  assert.equal(report.total_cents, sum);
}

/** The server answers with an error of the protocol. */
function refused(call, reason) {
  return assert.rejects(call, (error) => {
    assert.equal(error.code, INVALID_PARAMS, String(error));
    assert.equal(error.data?.reason, reason, String(error));
    return true;
  });
}

/** What the client takes for a result that it does not know itself. */
const anyObject = {
  "~standard": {
    version: 1,
    vendor: "handback-interop",
    validate: (value) =>
      typeof value === "object" ? { value } : { issues: [{ message: "no object" }] },
  },
};

/**
 * Calls a long tool. The client hands out no result of the Tasks extension: it fails with the type
 * of the result. The result itself is taken from its transport.
 */
async function createTask(setting, pauseMs) {
  await assert.rejects(setting.call("shop_report", { pause_ms: pauseMs }), (error) => {
    assert.equal(error.code, second.SdkErrorCode.UnsupportedResultType, String(error));
    assert.equal(error.data.resultType, "task");
    return true;
  });
  const task = setting.received.at(-1).result;
  assert.equal(task.resultType, "task");
  assert.equal(task.status, "working");
  return task.taskId;
}

const getTask = (setting, taskId) =>
  setting.client.request({ method: "tasks/get", params: { taskId } }, anyObject);

async function settled(setting, taskId) {
  for (;;) {
    const task = await getTask(setting, taskId);
    assert.equal(task.taskId, taskId);
    if (task.status !== "working") return task;
    await sleep(100);
  }
}

// ---------------------------------------------------------------------------
// The checks. Those with a revision are for it only.

const CHECKS = [
  ["the revision is negotiated", async (setting) => {
    assert.equal(setting.kind.revision(setting.client), setting.revision);
    assert.equal(setting.client.getServerVersion().name, "handback");
  }],

  ["every list ends", async ({ client }) => {
    const { tools, nextCursor } = await client.listTools();
    const names = tools.map((tool) => tool.name).sort();
    const shop = ["shop_orders", "shop_refund", "shop_report"];
    assert.deepEqual(names, ["mcp_aql_create", "mcp_aql_read", ...shop]);
    assert.equal(nextCursor, undefined);
    const { prompts } = await client.listPrompts();
    assert.deepEqual(prompts.map((prompt) => prompt.name), ["shop_letter"]);
    const { resources } = await client.listResources();
    assert.deepEqual(resources.map((resource) => resource.uri), ["shop://schema"]);
  }],

  ["a prompt and a resource are read", async ({ client }) => {
    const args = { customer: String(CUSTOMER) };
    const prompt = await client.getPrompt({ name: "shop_letter", arguments: args });
    assert.match(prompt.messages[0].content.text, /customer 7/);
    const resource = await client.readResource({ uri: "shop://schema" });
    assert.match(resource.contents[0].text, /CREATE TABLE orders/);
  }],

  ["a tool is walked page by page", async (setting) => {
    assertWalk(await ordersOfWalk(setting));
  }],

  ["a collection is walked page by page", async (setting) => {
    const pages = await ordersOfQuery(setting);
    assertWalk(pages);
    assert.deepEqual(pages, await ordersOfWalk(setting));
  }],

  ["a collection describes itself", async (setting) => {
    const data = await envelope(setting, "introspect", { params: { query: "operations" } });
    assert.equal(data._protocol.version, "1.0.0-draft");
    assert.ok(data.operations.some((operation) => operation.name === "list_elements"));
  }],

  ["a cursor that is not of this walk is refused", async (setting) => {
    const first = await setting.call("shop_orders", { customer: CUSTOMER });
    const cursor = first._meta[NEXT_CURSOR];
    for (const [customer, presented] of [[CUSTOMER, edited(cursor)], [CUSTOMER + 1, cursor]]) {
      const result = await setting.call("shop_orders", { customer, __cursor: presented });
      assert.equal(result.isError, true);
      assert.equal(result.content[0].text, "invalid cursor");
      assert.equal(result._meta[REASON], "invalid");
    }
    const again = await setting.call("shop_orders", { customer: CUSTOMER, __cursor: cursor });
    assert.ok(value(again).items.length > 0);
  }],

  ["a question is answered", async (setting) => {
    const order = setting.order();
    setting.answer = accepted("it broke");
    const result = value(await setting.call("shop_refund", { order }));
    assert.equal(result.refunded, true);
    assert.equal(result.order, order);
    assert.equal(setting.asked.length, 1);
    assert.ok(setting.asked[0].startsWith(`Refund order ${order}: `), setting.asked[0]);
    const again = await setting.call("shop_refund", { order });
    assert.equal(again.isError, true);
    assert.equal(again.content[0].text, "the order was refunded already");
  }],

  ["a question is declined", async (setting) => {
    const order = setting.order();
    setting.answer = { action: "decline" };
    const result = value(await setting.call("shop_refund", { order }));
    assert.deepEqual(result, { refunded: false, order });
    assert.equal(setting.asked.length, 1);
  }],

  ["the state of a question is used once", async (setting) => {
    const order = setting.order();
    const schema = second.withInputRequired(second.specTypeSchemas.CallToolResult);
    const ask = (params) => {
      const all = { name: "shop_refund", arguments: { order }, ...params };
      const request = { method: "tools/call", params: all };
      return setting.client.request(request, schema, { allowInputRequired: true });
    };
    const first = await ask({});
    assert.ok(second.isInputRequiredResult(first), JSON.stringify(first));
    assert.deepEqual(Object.keys(first.inputRequests), ["refund"]);
    const { requestState } = first;
    assert.equal(typeof requestState, "string");
    const retry = (requestState, reason, params) => {
      // What was not asked for is ignored.
      const inputResponses = { refund: accepted(reason), more: accepted("nobody asked") };
      return ask({ requestState, inputResponses, ...params });
    };

    await refused(retry(edited(requestState), "it broke"), "invalid");
    const other = { arguments: { order: setting.order() } };
    await refused(retry(requestState, "it broke", other), "invalid");
    const done = await retry(requestState, "it broke");
    assert.equal(value(done).refunded, true);
    const repeated = await retry(requestState, "it broke");
    assert.deepEqual(value(repeated), value(done));
    assert.equal(repeated._meta[REPLAYED], true);
    await refused(retry(requestState, "another reason"), "invalid");
    assert.deepEqual(setting.asked, []);
  }, NEWEST],

  ["a long call becomes a task", async (setting) => {
    assert.ok(setting.client.getServerCapabilities().extensions[TASKS]);
    const task = await settled(setting, await createTask(setting, SHORT_PAUSE_MS));
    assert.equal(task.status, "completed");
    assertReport(value(task.result));
  }, NEWEST],

  ["a task is cancelled", async (setting) => {
    const taskId = await createTask(setting, LONG_PAUSE_MS);
    await setting.client.request({ method: "tasks/cancel", params: { taskId } }, anyObject);
    const task = await settled(setting, taskId);
    assert.equal(task.status, "cancelled");
    assert.equal(task.result, undefined);
  }, NEWEST],

  ["a task that is not there is refused", async (setting) => {
    await refused(getTask(setting, "nothing"), "invalid");
  }, NEWEST],

  ["a long call tells how far it is", async (setting) => {
    const told = [];
    const onprogress = ({ progress, total }) => told.push([progress, total]);
    const result = await setting.call("shop_report", { pause_ms: SHORT_PAUSE_MS }, { onprogress });
    assertReport(value(result));
    const all = Array.from({ length: CATEGORIES }, (_, at) => [at + 1, CATEGORIES]);
    const sent = setting.received.slice(0, -1).map(({ params }) => [params.progress, params.total]);
    assert.deepEqual(sent, all);
    // The client forgets the last ones if the result comes in the same chunk.
    assert.ok(told.length > 0);
    assert.deepEqual(told, all.slice(0, told.length));
  }, OLDER],
];

// ---------------------------------------------------------------------------

async function runCheck(setting, name, check) {
  const limit = AbortSignal.timeout(CHECK_MS_MAX);
  const late = new Promise((_, reject) => {
    limit.addEventListener("abort", () => reject(limit.reason));
  });
  const run = async () => {
    await setting.connect();
    await check(setting);
  };
  let passed = true;
  try {
    await Promise.race([run(), late]);
  } catch (error) {
    passed = false;
    console.error(error);
  }
  await setting.client?.close();
  console.log(`${passed ? "ok" : "not ok"} ${setting.label}: ${name}`);
  return passed;
}

/** Orders that can be refunded, enough for all. */
async function freeOrders(transport) {
  const setting = new Setting(SECOND, transport, NEWEST, []);
  await setting.connect();
  const params = { first: 100, filter: { status: "delivered" } };
  const data = await envelope(setting, "list_elements", { element_type: "orders", params });
  await setting.client.close();
  return data.items.map((item) => item.id);
}

async function main(url, program, folder) {
  const args = ["serve", "--demo", "--stdio", "--data", folder];
  const child = { command: program, args, env: { HOME: folder } };
  const transports = [
    { label: "http", open: ({ Http }) => new Http(new URL(url)) },
    { label: "stdio", open: ({ Stdio }) => new Stdio(child) },
  ];
  const orders = await freeOrders(transports[0]);
  let passed = true;
  for (const transport of transports) {
    for (const [kind, revision] of [[SECOND, NEWEST], [SECOND, OLDER], [FIRST, OLDER]]) {
      const setting = new Setting(kind, transport, revision, orders);
      for (const [name, check, only] of CHECKS) {
        if (only === undefined || only === revision) {
          passed = (await runCheck(setting, name, check)) && passed;
        }
      }
    }
  }
  return passed ? 0 : 1;
}

process.exit(await main(...process.argv.slice(2)));
