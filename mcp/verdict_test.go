package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestVerdicts(t *testing.T) {
	failed := func(text string) string {
		return `"result":{"content":[{"type":"text","text":"` + text + `"}],"isError":true}`
	}
	for _, test := range []struct {
		name, answer string
		outcome      fusebox.Outcome
		class        fusebox.Class
		says         string
	}{
		{"result", `"result":{"content":[]}`, fusebox.Success, "", ""},
		{"result that says it is none", `"result":{"content":[{"type":"text","text":"{\"isError\":true}"}],"isError":false}`, fusebox.Success, "", ""},
		{"no object", `"result":"odd"`, fusebox.Success, "", ""},
		{"error result", failed("no such city"), fusebox.Failure, fusebox.ClassTool, "no such city"},
		{"error result without text", `"result":{"isError":true,"content":[{"type":"image"}]}`, fusebox.Failure, fusebox.ClassTool, "failed"},
		{"unknown tool, as a result", failed("MCP error -32602: Tool x not found"), fusebox.Rejected, "", "Tool x"},
		{"unknown tool, as an error", `"error":{"code":-32602,"message":"Unknown tool: x"}`, fusebox.Rejected, "", "Unknown tool"},
		{"no such method", `"error":{"code":-32601,"message":"no"}`, fusebox.Rejected, "", ""},
		{"internal error", `"error":{"code":-32603,"message":"oops"}`, fusebox.Failure, fusebox.ClassServer, "oops"},
		{"error of the server's own", `"error":{"code":-32050,"message":"oops"}`, fusebox.Failure, fusebox.ClassTool, "oops"},
		{"timeout", `"error":{"code":-32001,"message":"Request timed out"}`, fusebox.Failure, fusebox.ClassTimeout, ""},
		{"odd error", `"error":"oops"`, fusebox.Failure, fusebox.ClassTool, ""},
		{"person is to open a page", `"error":{"code":-32042,"message":"open"}`, fusebox.Canceled, "", ""},
		{"person is asked", `"result":{"resultType":"input_required","inputRequests":{}}`, fusebox.Canceled, "", ""},
		{"task, newest", `"result":{"resultType":"task","task":{"taskId":"t"}}`, fusebox.Canceled, "", ""},
		{"task, older", `"result":{"task":{"taskId":"t"}}`, fusebox.Canceled, "", ""},
		{"complete", `"result":{"resultType":"complete","content":[]}`, fusebox.Success, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, ok := readMessage([]byte(`{"jsonrpc":"2.0","id":1,` + test.answer + `}`))
			if !ok {
				t.Fatal("not read")
			}
			v := judge(&m)
			if v.tool.Outcome != test.outcome || v.tool.Class != test.class || !strings.Contains(fusebox.ErrorText(v.tool.Err), test.says) {
				t.Errorf("have %v %v %v", v.tool.Outcome, v.tool.Class, v.tool.Err)
			}
			if v.server.Outcome != fusebox.Success {
				t.Errorf("an answered call proves that the server works, have %v", v.server)
			}
		})
	}
}

func TestACancelIsTheOnlySignOfAClientsTimeLimit(t *testing.T) {
	for reason, want := range map[string]fusebox.Outcome{
		"McpError: MCP error -32001: Request timed out": fusebox.Failure,
		"timeout of 60 s":           fusebox.Failure,
		"context deadline exceeded": fusebox.Failure,
		"user pressed escape":       fusebox.Canceled,
		"":                          fusebox.Canceled,
	} {
		params, _ := json.Marshal(map[string]any{"requestId": 7, "reason": reason})
		id, v := judgeCancel(params)
		if string(id) != "7" || v.tool.Outcome != want || v.server.Outcome != want {
			t.Errorf("%q: have %s, %v", reason, id, v)
		}
	}
}
