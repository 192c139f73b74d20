// An MCP client on the TypeScript SDK 1.x, as the inspector and opencode are.
//
// Reads {url, token, calls: [{tool, arguments}]} from stdin, lists the tools (from then on the SDK checks results against
// their output schemas), makes the calls, and prints {server, listed, results: [{thrown} | {isError, text, structured, meta}]}.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { text } from "node:stream/consumers";

const { url, token, calls } = JSON.parse(await text(process.stdin));
const client = new Client({ name: "swarm-tests", version: "1" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }),
);
const { tools } = await client.listTools();
const results = [];
for (const { tool, arguments: given } of calls) {
  try {
    const { isError, content, structuredContent, _meta } = await client.callTool({ name: tool, arguments: given });
    results.push({ isError: isError ?? false, text: content[0].text, structured: structuredContent ?? null, meta: _meta ?? {} });
  } catch (error) {
    results.push({ thrown: String(error) });
  }
}
await client.close();
console.log(JSON.stringify({ server: client.getServerVersion(), listed: tools.map(({ name }) => name), results }));
