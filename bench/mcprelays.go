package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpPrograms are the parties of an MCP conversation, each a process of its
// own. What is after its name is the server's command, or its address.
var mcpPrograms = map[string]func(args []string) error{
	"server":      func([]string) error { return overPipes(echoServer()) },
	"server-http": func([]string) error { return serveHere(overHTTP(echoServer())) },
	"bytes":       relayPipes,
	"bytes-http":  func(args []string) error { return relayConnections(args[0]) },
	"go-sdk": func(args []string) error {
		s, err := goSDKRelay(&mcp.CommandTransport{Command: exec.Command(args[0], args[1:]...)})
		if err != nil {
			return err
		}
		return overPipes(s)
	},
	"go-sdk-http": func(args []string) error {
		s, err := goSDKRelay(&mcp.StreamableClientTransport{Endpoint: mcpURL(args[0])})
		if err != nil {
			return err
		}
		return serveHere(overHTTP(s))
	},
	"mcp-go": func(args []string) error {
		c, err := mcpgoclient.NewStdioMCPClient(args[0], nil, args[1:]...)
		if err != nil {
			return err
		}
		s, err := mcpGoRelay(c)
		if err != nil {
			return err
		}
		return mcpgoserver.ServeStdio(s)
	},
	"mcp-go-http": func(args []string) error {
		c, err := mcpgoclient.NewStreamableHttpClient(mcpURL(args[0]))
		if err != nil {
			return err
		}
		if err := c.Start(context.Background()); err != nil {
			return err
		}
		s, err := mcpGoRelay(c)
		if err != nil {
			return err
		}
		return serveHere(mcpgoserver.NewStreamableHTTPServer(s))
	},
}

func mcpURL(address string) string { return "http://" + address + "/mcp" }

// relayPipes passes bytes to and from a command: the least that can stand
// between a client and its server.
func relayPipes(command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		io.Copy(in, os.Stdin)
		in.Close()
	}()
	io.Copy(os.Stdout, out)
	return cmd.Wait()
}

// relayConnections passes bytes to and from an address, a connection for each
// that comes.
func relayConnections(target string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		near, err := l.Accept()
		if err != nil {
			return err
		}
		go relayConnection(near, target)
	}
}

func relayConnection(near net.Conn, target string) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		io.Copy(far, near)
		far.Close()
	}()
	io.Copy(near, far)
}

// goSDKRelay is a server of go-sdk that has the tools of another, through a
// client of go-sdk.
func goSDKRelay(to mcp.Transport) (*mcp.Server, error) {
	ctx := context.Background()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "relay", Version: "1"}, nil).Connect(ctx, to, nil)
	if err != nil {
		return nil, err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "relay", Version: "1"}, nil)
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		s.AddTool(tool, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return session.CallTool(ctx, &mcp.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	return s, nil
}

// mcpGoRelay is the same with mcp-go.
func mcpGoRelay(c *mcpgoclient.Client) (*mcpgoserver.MCPServer, error) {
	ctx := context.Background()
	hello := mcpgo.InitializeRequest{Params: mcpgo.InitializeParams{
		ProtocolVersion: mcpRelease, ClientInfo: mcpgo.Implementation{Name: "relay", Version: "1"},
	}}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	tools, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	s := mcpgoserver.NewMCPServer("relay", "1")
	for _, tool := range tools.Tools {
		s.AddTool(tool, func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return c.CallTool(ctx, mcpgo.CallToolRequest{Params: mcpgo.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments}})
		})
	}
	return s, nil
}

// mcpChild is one of the programs.
func mcpChild(args []string) error {
	run, ok := mcpPrograms[args[0]]
	if !ok {
		return fmt.Errorf("no MCP program %q", args[0])
	}
	return run(args[1:])
}
