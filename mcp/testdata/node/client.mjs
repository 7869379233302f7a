// A client of the TypeScript SDK: calls one tool several times, and prints what
// each call came to as one line of JSON.
//
//   node client.mjs TOOL ARGUMENTS TIMES COMMAND…
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [tool, args, times, command, ...rest] = process.argv.slice(2);
const client = new Client({ name: "client.mjs", version: "1" });
await client.connect(new StdioClientTransport({ command, args: rest, env: process.env, stderr: "inherit" }));
await client.listTools(); // from here on it checks results against the tools' schemas
for (let i = 0; i < Number(times); i++) {
  try {
    const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
    console.log(JSON.stringify({ isError: result.isError === true, text: result.content[0].text, meta: result._meta }));
  } catch (error) {
    console.log(JSON.stringify({ thrown: String(error) }));
  }
}
await client.close();
