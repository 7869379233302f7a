//go:build unix

//lint:file-ignore SA1019 servers of the older eras ask for sampling

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// nodeFolder holds the parties that npm installs.
const nodeFolder = "testdata/node"

// npm returns the command of an installed party.
func npm(t testing.TB, program string, args ...string) []string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(nodeFolder, "node_modules", ".bin", program))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: install the tests' parties with make test-deps", err)
	}
	return append([]string{"node", path}, args...)
}

// sdkSession connects the Go SDK's client to a guarded command.
func sdkSession(t *testing.T, box fusebox.Config, client *sdk.ClientOptions, command ...string) (*sdk.ClientSession, *fusebox.Box) {
	t.Helper()
	b := newBox(t, box)
	guard := newGuard(t, b, mcp.Config{})
	in, toGuard := io.Pipe()
	fromGuard, out := io.Pipe()
	ended := make(chan struct{})
	var stderr lockedBuffer
	go func() {
		defer close(ended)
		if _, err := guard.Stdio(mcp.Stdio{Command: command, In: in, Out: out, Err: &stderr}); err != nil {
			stderr.Write([]byte(err.Error()))
		}
		out.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, client).
		Connect(ctx, &sdk.IOTransport{Reader: fromGuard, Writer: toGuard, MaxLineLength: -1}, nil)
	if err != nil {
		t.Fatalf("connecting: %v\n%s", err, &stderr)
	}
	t.Cleanup(func() {
		session.Close()
		toGuard.Close()
		<-ended
	})
	return session, b
}

// use calls a tool and returns its text, and whether it is an error and a denial.
func use(t *testing.T, s *sdk.ClientSession, tool string, args any) (text string, isError, denied bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range result.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text += c.Text
		}
	}
	_, denied = result.Meta["io.github.fusebox-go/denied"]
	return text, result.IsError, denied
}

type object = map[string]any

func TestFilesystemServer(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, box := sdkSession(t, fusebox.Config{}, nil, npm(t, "mcp-server-filesystem", root)...)
	reached := 0
	for range 10 {
		_, isError, denied := use(t, s, "read_text_file", object{"path": "/etc/passwd"})
		if !isError {
			t.Fatal("the server lets it read that")
		}
		if !denied {
			reached++
		}
	}
	if reached != 3 {
		t.Errorf("%d calls reached the server, want 3", reached)
	}
	if text, isError, _ := use(t, s, "read_text_file", object{"path": filepath.Join(root, "a.txt")}); isError || text != "inside" {
		t.Errorf("other arguments: %q", text)
	}
	c, _ := box.Circuit("tool/s/read_text_file")
	if status := c.Status(); status.Phase != fusebox.Closed {
		t.Errorf("have %+v", status)
	}
}

func TestMemoryServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.json")
	command := append([]string{"env", "MEMORY_FILE_PATH=" + file}, npm(t, "mcp-server-memory")...)
	s, _ := sdkSession(t, fusebox.Config{}, nil, command...)
	use(t, s, "create_entities", object{"entities": []any{object{"name": "Ada", "entityType": "person", "observations": []string{"counts"}}}})
	if text, isError, _ := use(t, s, "read_graph", object{}); isError || !strings.Contains(text, "Ada") {
		t.Errorf("have %q", text)
	}
}

func TestSequentialThinkingServer(t *testing.T) {
	s, _ := sdkSession(t, fusebox.Config{}, nil, npm(t, "mcp-server-sequential-thinking")...)
	for i := range 100 {
		text, isError, denied := use(t, s, "sequentialthinking", object{
			"thought": "again the same thought", "nextThoughtNeeded": true, "thoughtNumber": 1 + i/2, "totalThoughts": 100})
		if isError || denied {
			t.Fatalf("call %d: %s", i, text)
		}
	}
}

// TestEverythingServer: what is no call of a tool passes in both directions,
// sessions and streams of the older eras included.
func TestEverythingServer(t *testing.T) {
	for _, over := range []string{"stdio", "HTTP"} {
		t.Run(over, func(t *testing.T) {
			var progress sync.Map
			client := &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
					progress.Store(r.Params.Progress, true)
				},
				CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
					return &sdk.CreateMessageResult{Content: &sdk.TextContent{Text: "sampled"}, Model: "m", Role: "assistant"}, nil
				},
			}
			var s *sdk.ClientSession
			if over == "stdio" {
				s, _ = sdkSession(t, fusebox.Config{}, client, npm(t, "mcp-server-everything", "stdio")...)
			} else {
				s = everythingOverHTTP(t, client)
			}
			if text, _, _ := use(t, s, "echo", object{"message": "hello"}); text != "Echo: hello" {
				t.Errorf("have %q", text)
			}
			params := &sdk.CallToolParams{Name: "trigger-long-running-operation", Arguments: object{"duration": 0.2, "steps": 4}}
			params.SetProgressToken("p")
			if result, err := s.CallTool(t.Context(), params); err != nil || result.IsError {
				t.Errorf("have %v, %v", result, err)
			}
			eventually(t, "progress", func() bool { _, ok := progress.Load(4.0); return ok })
			if text, isError, _ := use(t, s, "trigger-sampling-request", object{"prompt": "x", "maxTokens": 10}); isError || !strings.Contains(text, "sampled") {
				t.Errorf("have %q", text)
			}
			for i := range 5 {
				if text, _, denied := use(t, s, "get-sum", object{"a": "no number", "b": 1}); denied != (i >= 3) {
					t.Errorf("call %d: %s", i, text)
				}
			}
		})
	}
}

func everythingOverHTTP(t *testing.T, client *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, address, append([]string{"env", "PORT=" + port}, npm(t, "mcp-server-everything", "streamableHttp")...))
	url := guardOf(t, newGuard(t, newBox(t, fusebox.Config{}), mcp.Config{}), "http://"+address+"/mcp")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, client).Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// everything is the Go SDK's server for conformance, built once.
var everything = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "everything-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func everythingServer(t *testing.T) string {
	t.Helper()
	path, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewestEra(t *testing.T) {
	s, box := sdkSession(t, fusebox.Config{}, nil, everythingServer(t))
	if v := s.InitializeResult().ProtocolVersion; v != "2026-07-28" {
		t.Errorf("the era is %s", v)
	}
	if text, isError, _ := use(t, s, "test_simple_text", nil); isError || text == "" {
		t.Errorf("have %q", text)
	}
	for i := range 5 {
		if _, isError, denied := use(t, s, "test_error_handling", nil); !isError || denied != (i >= 3) {
			t.Errorf("call %d: denied %v", i, denied)
		}
	}
	c, _ := box.Circuit("server/s")
	if c.Status().Health != fusebox.Up {
		t.Errorf("have %v", c.Status().Health)
	}
}

func TestNewestEraOverHTTP(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	reached := 0
	sdk.AddTool(server, &sdk.Tool{Name: "lookup"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		reached++
		return nil, nil, fmt.Errorf("no such customer")
	})
	for _, stateless := range []bool{true, false} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			reached = 0
			upstream := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
				&sdk.StreamableHTTPOptions{Stateless: stateless}))
			defer upstream.Close()
			box := newBox(t, fusebox.Config{})
			url := guardOf(t, newGuard(t, box, mcp.Config{}), upstream.URL+"/mcp")
			s, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for i := range 10 {
				if _, isError, denied := use(t, s, "lookup", object{}); !isError || denied != (i >= 3) {
					t.Errorf("call %d: denied %v", i, denied)
				}
			}
			if reached != 3 {
				t.Errorf("%d calls reached the server, want 3", reached)
			}
		})
	}
}

// TestTypeScriptClient: the client that checks results against schemas takes a
// denial as a result, for a tool with a schema, too.
func TestTypeScriptClient(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(nodeFolder, "client.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{script, "read_text_file", `{"path":"/etc/passwd"}`, "10", os.Args[0]}, npm(t, "mcp-server-filesystem", t.TempDir())...)
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Env = append(os.Environ(), partyVariable+"=guard")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 10 {
		t.Fatalf("have %s", &stdout)
	}
	for i, line := range lines {
		var got struct {
			IsError bool
			Text    string
			Meta    map[string]any
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if _, denied := got.Meta["io.github.fusebox-go/denied"]; !got.IsError || got.Text == "" || denied != (i >= 3) {
			t.Errorf("call %d: %s", i, line)
		}
	}
}

// TestABrowserThatIsInstalledHealsItsTool: without a browser every page fails,
// until the tool's circuit opens; once there is one, a probe closes it.
func TestABrowserThatIsInstalledHealsItsTool(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install it with make test-deps", err)
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<title>here</title>") }))
	defer page.Close()
	dir := t.TempDir()
	browser := filepath.Join(dir, "browser")
	policy := func(name string) fusebox.Policy {
		p := fusebox.DefaultPolicy(fusebox.Kind(name))
		p.Cooldown = fusebox.Cooldown{Calls: 2} // refused calls, so that nobody waits
		return p
	}
	s, box := sdkSession(t, fusebox.Config{Policy: policy}, nil,
		npm(t, "playwright-mcp", "--headless", "--isolated", "--no-sandbox", "--executable-path", browser, "--output-dir", dir)...)
	visit := func(n int) (string, bool, bool) {
		return use(t, s, "browser_navigate", object{"url": fmt.Sprintf("%s/%d", page.URL, n)})
	}
	for n := range 3 {
		if text, isError, denied := visit(n); !isError || denied {
			t.Fatalf("without a browser: %s", text)
		}
	}
	c, _ := box.Circuit("tool/s/browser_navigate")
	if c.Status().Phase != fusebox.Open {
		t.Fatalf("the tool's circuit is %v", c.Status().Phase)
	}
	if err := os.Symlink(chromium, browser); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if _, _, denied := visit(n); !denied {
			t.Error("an open circuit lets a call through")
		}
	}
	if text, isError, denied := visit(9); isError || denied || !strings.Contains(text, "here") {
		t.Fatalf("the probe: %s", text)
	}
	if c.Status().Phase != fusebox.Closed {
		t.Errorf("the tool's circuit is %v", c.Status().Phase)
	}
}
