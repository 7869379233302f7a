package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// verdict is what a call came to: for its tool, and for the server that it is
// on, whose circuit asks only whether it was reached.
type verdict struct {
	tool, server fusebox.Result
}

// undecided is the verdict of a call that nobody can judge: given up by its
// caller, or gone on with by another request.
func undecided(reason string) verdict {
	r := fusebox.Result{Outcome: fusebox.Canceled, Err: errors.New(reason)}
	return verdict{r, r}
}

// broken is the verdict of a call that the server did not answer.
func broken(class fusebox.Class, err error) verdict {
	r := fusebox.Result{Outcome: fusebox.Failure, Class: class, Err: err}
	return verdict{r, r}
}

// overdue is the verdict of a call that has run for its whole time limit.
func overdue(limit time.Duration) verdict {
	return broken(fusebox.ClassTimeout, fmt.Errorf("no answer within %v", limit))
}

// failureWords tell the model that a call failed which the server did not answer.
func failureWords(tool string, r fusebox.Result) string {
	return fmt.Sprintf("%s failed: %s. Whether it took effect is not known. "+
		"Check that before you repeat it, or go on without it and say so in your answer.", tool, fusebox.ErrorText(r.Err))
}

// judge is the verdict of the server's answer, whatever it says: the server was
// reached.
func judge(m *message) verdict {
	if m.err != nil {
		return verdict{tool: judgeError(m.err)}
	}
	return verdict{tool: judgeResult(m.result)}
}

// JSON-RPC codes that say something of a call.
const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeTimeout        = -32001
	codeNotFound       = -32002
	codeAskPerson      = -32042 // the person is to open a URL first
)

// judgeError reads a JSON-RPC error.
func judgeError(raw json.RawMessage) fusebox.Result {
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	json.Unmarshal(raw, &e) // what cannot be read is an error all the same
	return judgeCode(e.Code, fmt.Errorf("%s (JSON-RPC error %d)", e.Message, e.Code))
}

func judgeCode(code int, err error) fusebox.Result {
	r := fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassTool, Err: err}
	switch code {
	case codeInvalidRequest, codeNoMethod, codeInvalidParams, codeNotFound:
		r.Outcome, r.Class = fusebox.Rejected, ""
	case codeAskPerson:
		r.Outcome, r.Class = fusebox.Canceled, ""
	case codeTimeout:
		r.Class = fusebox.ClassTimeout
	case codeInternal:
		r.Class = fusebox.ClassServer
	}
	return r
}

// judgeResult reads the result of a tool call.
func judgeResult(raw json.RawMessage) fusebox.Result {
	var isError, kind, task, content json.RawMessage
	members(raw, func(key, value []byte) {
		switch string(key) {
		case "isError":
			isError = value
		case "resultType":
			kind = value
		case "task":
			task = value
		case "content":
			content = value
		}
	})
	switch {
	case string(isError) == "true":
		return judgeText(errorText(content))
	case text(kind) == "input_required":
		return fusebox.Result{Outcome: fusebox.Canceled, Err: errors.New("it waits for the person")}
	case text(kind) == "task", task != nil && content == nil:
		return fusebox.Result{Outcome: fusebox.Canceled, Err: errors.New("it goes on as a task")}
	}
	return fusebox.Result{}
}

// sdkError is how some SDKs put a JSON-RPC error into a result.
var sdkError = regexp.MustCompile(`^(?:\w*Error: )?MCP error (-\d+)`)

// judgeText reads the text of an error result.
func judgeText(words string) fusebox.Result {
	if words == "" {
		words = "the tool said that it failed"
	}
	code := 0
	if match := sdkError.FindStringSubmatch(words); match != nil {
		code, _ = strconv.Atoi(match[1])
	}
	return judgeCode(code, errors.New(words))
}

// maxErrorContent bounds what is read of an error's content.
const maxErrorContent = 64 << 10

// errorText is the text of an error result's content.
func errorText(content json.RawMessage) string {
	if len(content) > maxErrorContent {
		return fmt.Sprintf("an error of %d bytes", len(content))
	}
	var blocks []textBlock
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var texts []string
	for _, b := range blocks {
		if b.Text != "" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, " ")
}

// gaveUpWaiting tells a client's timeout from other reasons to cancel.
var gaveUpWaiting = regexp.MustCompile(`(?i)timed?[ -]?out|deadline|exceeded`)

// judgeCancel is the verdict of a call that its client cancelled: this is the
// only sign of a client's time limit.
func judgeCancel(params json.RawMessage) (id json.RawMessage, v verdict) {
	var reason string
	members(params, func(key, value []byte) {
		switch string(key) {
		case "requestId":
			id = value
		case "reason":
			reason = text(value)
		}
	})
	if gaveUpWaiting.MatchString(reason) {
		return id, broken(fusebox.ClassTimeout, fmt.Errorf("the client's time limit passed: %s", reason))
	}
	return id, undecided("the client cancelled it: " + reason)
}
