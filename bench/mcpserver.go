package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of the server that every MCP way leads to.
const (
	echoTool   = "echo"
	brokenTool = "broken"
)

type spoken struct {
	Text string `json:"text"`
}

// echoServer is an MCP server as people write them.
func echoServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: echoTool, Description: "says what it hears"},
		func(_ context.Context, _ *mcp.CallToolRequest, in spoken) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: brokenTool, Description: "fails"},
		func(context.Context, *mcp.CallToolRequest, spoken) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("no such file")
		})
	return s
}

// overPipes serves on standard input and output.
func overPipes(s *mcp.Server) error {
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// overHTTP serves streamable HTTP.
func overHTTP(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}
