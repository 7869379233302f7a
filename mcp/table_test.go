package mcp

import (
	"encoding/json"
	"fmt"
	"testing"
)

func answerTo(id string) *message {
	return &message{id: json.RawMessage(id), result: json.RawMessage("{}")}
}

func TestALateAnswerIsSwallowedOnce(t *testing.T) {
	table := newTable()
	r := &request{id: json.RawMessage("1")}
	table.add(r)
	if !table.claim(r) || table.claim(r) {
		t.Fatal("a request is claimed once")
	}
	if pass, _ := table.fromServer(answerTo("1")); pass {
		t.Error("the late answer goes to the client")
	}
	if pass, _ := table.fromServer(answerTo("1")); !pass {
		t.Error("what follows is not ours to keep")
	}
}

func TestAnIdThatIsUsedAgainIsAnswered(t *testing.T) {
	table := newTable()
	r := &request{id: json.RawMessage("1")}
	table.add(r)
	table.claim(r)
	again := &request{id: json.RawMessage("1")}
	table.add(again)
	if pass, answered := table.fromServer(answerTo("1")); !pass || answered != again {
		t.Errorf("have %v, %v", pass, answered)
	}
}

func TestAnAnswerMeetsItsRequestAlone(t *testing.T) {
	table := newTable()
	for _, id := range []string{`1`, `"1"`, `""`, `0`} {
		table.add(&request{id: json.RawMessage(id)})
	}
	for _, id := range []string{`""`, `"1"`, `0`, `1`} {
		if pass, r := table.fromServer(answerTo(id)); !pass || r == nil || string(r.id) != id {
			t.Errorf("the answer to %s met %v", id, r)
		}
	}
	if !table.idle() || table.concerned() {
		t.Error("something is left")
	}
}

func TestACancelOfWhatTheGuardAnsweredGoesNoFurther(t *testing.T) {
	table := newTable()
	cancel := &message{method: json.RawMessage(`"notifications/cancelled"`), params: json.RawMessage(`{"requestId":1}`)}
	r := &request{id: json.RawMessage("1")}
	table.add(r)
	if !table.fromClient(cancel) {
		t.Error("the server is not told")
	}
	table.add(r)
	table.claim(r)
	if table.fromClient(cancel) {
		t.Error("the server is told twice")
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	table := newTable()
	for i := range 3 * maxRecent {
		r := &request{id: json.RawMessage(fmt.Sprint(i))}
		table.add(r)
		table.claim(r)
		table.fromServer(&message{id: r.id, method: json.RawMessage(`"elicitation/create"`)})
	}
	if n, m := table.settled.len(), len(table.asked); n > maxRecent || m > maxAsked {
		t.Errorf("%d answers and %d questions", n, m)
	}
}
