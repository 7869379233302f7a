//go:build unix

package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// TestTheOldHTTPTransport: of 2024-11-05, in which answers come on the stream
// of a GET, and so do those of the guard.
func TestTheOldHTTPTransport(t *testing.T) {
	reached := 0
	server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "lookup"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		reached++
		return nil, nil, errors.New("no such customer")
	})
	cancelled := make(chan bool, 1)
	sdk.AddTool(server, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		<-ctx.Done()
		cancelled <- true
		return nil, nil, ctx.Err()
	})
	handler := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
	broken := false
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken && r.Method == http.MethodPost {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer upstream.Close()
	defer upstream.CloseClientConnections()
	box := newBox(t, fusebox.Config{})
	limit := func(tool string) time.Duration {
		if tool == "hang" {
			return 50 * time.Millisecond
		}
		return 0
	}
	url := guardOf(t, newGuard(t, box, mcp.Config{Deadline: limit}), upstream.URL+"/mcp")
	s, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &sdk.SSEClientTransport{Endpoint: url}, nil)
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
	if text, isError, _ := use(t, s, "hang", object{}); !isError || !strings.Contains(text, "no answer within 50ms") {
		t.Errorf("have %q", text)
	}
	<-cancelled // the server was told
	broken = true
	if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "lookup", Arguments: object{"other": 1}}); err == nil {
		t.Error("the server's refusal is not passed on")
	}
	c, _ := box.Circuit("server/s")
	if status := c.Status(); status.LastClass != fusebox.ClassServer {
		t.Errorf("have %+v", status)
	}
}
