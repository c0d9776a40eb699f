// The published suite, against the server at CONFORMANCE_TEST_URL. Its own command finds no test
// files under this version of vitest.

import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.CONFORMANCE_TEST_URL,
  subscriptions: process.env.SUBS === "1",
})
