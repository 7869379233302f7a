// Package mcp guards MCP servers: it stands between a client and a server, over
// stdio or streamable HTTP, and lets everything through as the bytes that it
// is, but for tool calls that are not worth making.
//
//	client ──▶ peek: tools/call? ──no──────────────────────────────▶ server
//	                  │ yes
//	                  ▼
//	           stuck run? ── thrash? ── tool's circuit? ── server's circuit? ──▶ server
//	                  │ denied                                                     │
//	client ◀── a result with isError, and what to do instead                       │
//	client ◀──────────── verdict: two results for two circuits ◀───────────────────┘
//
// guard.go decides and judges one call; table.go knows what is under way;
// message.go and members.go are the peek; answer.go is what the guard says in
// the server's place. stdio.go and process.go are the one front; http.go,
// exchange.go and events.go the other, with old.go for its first transport.
package mcp
