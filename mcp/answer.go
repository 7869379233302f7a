package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/fusebox-go/fusebox"
)

// Keys of _meta.
const (
	metaDenied = "io.github.fusebox-go/denied" // of an answer: the denial, for machines
	metaFailed = "io.github.fusebox-go/failed" // of an answer: why the guard answered in the server's place
	metaRun    = "io.github.fusebox-go/run"    // of a request: the run that it belongs to
)

// codeUnavailable is the JSON-RPC code of an answer to a request other than a
// tool call that no server is there to answer; of those that are free to use.
const codeUnavailable = -32000

// answer is the result of a tool call that the guard gives in the server's
// place. It is a result and no JSON-RPC error, because clients may hide an
// error from the model; one block of text, because models read the first; no
// structured content, because clients check that against the tool's schema.
type answer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  answerResult    `json:"result"`
}

type answerResult struct {
	Content    []textBlock    `json:"content"`
	IsError    bool           `json:"isError"`
	ResultType string         `json:"resultType"`
	Meta       map[string]any `json:"_meta"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// failed is the machine's part of an answer to a call that was made and failed.
type failed struct {
	Class fusebox.Class `json:"class"`
	Error string        `json:"error"`
}

// deniedAnswer is the answer to a call that was refused.
func deniedAnswer(id json.RawMessage, d *fusebox.Denial) []byte {
	machine := encode(d)
	return callAnswer(id, instructionOf(machine), metaDenied, json.RawMessage(machine))
}

// instructionOf is what a denial in JSON tells the caller to do. Writing that
// is most of the work of an answer, so that it is done once for both its parts.
func instructionOf(denial []byte) (words string) {
	members(denial, func(key, value []byte) {
		if string(key) == "instruction" {
			words = text(value)
		}
	})
	return words
}

// failedAnswer is the answer to a call whose server did not answer it.
func failedAnswer(id json.RawMessage, words string, res fusebox.Result) []byte {
	return callAnswer(id, words, metaFailed, failed{res.Class, fusebox.ErrorText(res.Err)})
}

func callAnswer(id json.RawMessage, words, key string, machine any) []byte {
	return encode(answer{"2.0", id, answerResult{[]textBlock{{"text", words}}, true, "complete", map[string]any{key: machine}}})
}

// errorAnswer is the answer to any other request that no server is there for.
func errorAnswer(id json.RawMessage, words string) []byte {
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{codeUnavailable, words}})
}

// cancelNotice tells the server that nobody waits for a call any more.
func cancelNotice(id json.RawMessage, reason string) []byte {
	type params struct {
		RequestID json.RawMessage `json:"requestId"`
		Reason    string          `json:"reason"`
	}
	return encode(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  params `json:"params"`
	}{"2.0", methodCancelled, params{id, reason}})
}

// encode writes v as one line, with its end. What it is given can always be
// written: an id was read from JSON.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}
