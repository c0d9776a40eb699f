// The reference server of the protocol, as a peer: `node reference-server.js PORT [DIR]`. With a
// folder it keeps its streams there, without one in memory.

import { DurableStreamTestServer } from "@durable-streams/server"

const [port, dataDir] = process.argv.slice(2)
const server = new DurableStreamTestServer({
  port: Number(port),
  host: "127.0.0.1",
  dataDir,
  longPollTimeout: 500,
  webhooks: true,
})
console.log(await server.start())

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(0))
