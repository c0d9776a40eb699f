// Drives a server with the published TypeScript client of MCP, as a plan says.
//
//     node client.js PLAN FOLDER REVISION URL
//     node client.js PLAN FOLDER REVISION COMMAND ARGUMENT…
//
// PLAN is a file with the requests in their order, one at a time; `{folder}` in it stands for FOLDER.
// REVISION is `legacy` (the handshake of 2025-11-25) or `auto` (the newest that both sides speak;
// without the steps that only the older ones have). What the server answers does not matter here: somebody else records it. An answer that the client
// does not take is a failure.

import { readFileSync } from "node:fs";

import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

// No request takes a tenth of it.
const REQUEST_MS_MAX = 30_000;

const ABOUT = { name: "handback-interop", version: "1.0.0" };
const CAPABILITIES = { elicitation: { form: {} }, roots: {}, sampling: {} };

const REQUESTS = {
  "completion/complete": (client, { context, ...params }, options) =>
    client.complete(context ? { ...params, context: { arguments: context } } : params, options),
  "logging/setLevel": (client, params, options) => client.setLoggingLevel(params.level, options),
  ping: (client, _params, options) => client.ping(options),
  "prompts/get": (client, params, options) => client.getPrompt(params, options),
  "prompts/list": (client, params, options) => client.listPrompts(params, options),
  "resources/list": (client, params, options) => client.listResources(params, options),
  "resources/read": (client, params, options) => client.readResource(params, options),
  "resources/subscribe": (client, params, options) => client.subscribeResource(params, options),
  "resources/templates/list": (client, params, options) =>
    client.listResourceTemplates(params, options),
  "resources/unsubscribe": (client, params, options) => client.unsubscribeResource(params, options),
  "tools/call": (client, params, options) => client.callTool(params, options),
  "tools/list": (client, params, options) => client.listTools(params, options),
};

function connector(folder, revision) {
  const options = { capabilities: CAPABILITIES, versionNegotiation: { mode: revision } };
  const client = new Client(ABOUT, options);
  const content = { name: "Ada", check: true, integer: 7 };
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content }));
  client.setRequestHandler("sampling/createMessage", () => ({
    role: "assistant",
    content: { type: "text", text: "a word" },
    model: "none",
  }));
  client.setRequestHandler("roots/list", () => ({
    roots: [{ uri: `file://${folder}`, name: "folder" }],
  }));
  return client;
}

async function run(client, { method, params, progress }) {
  const options = { timeout: REQUEST_MS_MAX };
  if (progress) {
    options.onprogress = () => {};
  }
  try {
    await REQUESTS[method](client, params, options);
  } catch (error) {
    // The server's answer.
    if (!(error instanceof ProtocolError)) {
      throw error;
    }
  }
}

async function main([plan, folder, revision, server, ...args]) {
  const steps = JSON.parse(readFileSync(plan, "utf8").replaceAll("{folder}", folder));
  const client = connector(folder, revision);
  // All of the environment: the client would pass on a few variables only.
  const transport = server.startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(server))
    : new StdioClientTransport({ command: server, args, env: process.env });
  await client.connect(transport);
  for (const step of steps) {
    if (revision === "legacy" || !step.legacy) {
      await run(client, step);
    }
  }
  await client.close();
  console.log(`done: ${steps.length} requests`);
}

await main(process.argv.slice(2));
