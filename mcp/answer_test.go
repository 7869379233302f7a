package mcp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestADenialIsAResultThatModelsRead(t *testing.T) {
	d := fusebox.NewDenial(fusebox.DenialInfo{Circuit: "tool/crm/lookup", Reason: fusebox.ReasonThrash, Failures: 3, Run: "r", LastError: "a < b"})
	line := deniedAnswer(json.RawMessage(`"a\u0041\/b"`), d)
	if !strings.HasSuffix(string(line), "}\n") || strings.Count(string(line), "\n") != 1 {
		t.Errorf("not one line: %q", line)
	}
	if !strings.HasPrefix(string(line), `{"jsonrpc":"2.0","id":"a\u0041\/b","result":{`) {
		t.Errorf("the id is not the bytes that came: %.60s", line)
	}
	var got struct{ Result map[string]any }
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if _, ok := got.Result["structuredContent"]; ok || got.Result["isError"] != true || got.Result["resultType"] != "complete" {
		t.Errorf("have %v", got.Result)
	}
	if want := []any{map[string]any{"type": "text", "text": d.Instruction()}}; !reflect.DeepEqual(got.Result["content"], want) {
		t.Errorf("content: have %v, want %v", got.Result["content"], want)
	}
	machine := got.Result["_meta"].(map[string]any)["io.github.fusebox-go/denied"].(map[string]any)
	if machine["reason"] != "thrash" || machine["circuit"] != "tool/crm/lookup" || machine["run"] != "r" {
		t.Errorf("have %v", machine)
	}
}
