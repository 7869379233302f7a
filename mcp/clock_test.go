package mcp

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockStandsStillWhileThePersonIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var ended atomic.Int64 // after so long; 0 = not yet
		table := newTable()
		r := &request{id: json.RawMessage("1"), limit: 10 * time.Second}
		r.expired = func() { ended.Store(int64(time.Since(began))) }
		table.add(r)
		ask := func(id string) {
			table.fromServer(&message{id: json.RawMessage(id), method: json.RawMessage(`"elicitation/create"`)})
		}
		tell := func(id string) { table.fromClient(&message{id: json.RawMessage(id), result: json.RawMessage("{}")}) }
		time.Sleep(4 * time.Second)
		ask("1") // the server's own ids may be the client's
		ask(`"b"`)
		time.Sleep(time.Minute)
		tell("1")
		time.Sleep(time.Minute)
		tell(`"b"`)
		tell(`"b"`)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if d := ended.Load(); d != 0 {
			t.Fatalf("ended after %v", time.Duration(d))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if have, want := time.Duration(ended.Load()), 2*time.Minute+10*time.Second; have != want {
			t.Errorf("ended after %v, want %v", have, want)
		}
	})
}

func TestACallThatBeginsWhileThePersonIsAskedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := newTable(), false
		table.fromServer(&message{id: json.RawMessage("7"), method: json.RawMessage(`"sampling/createMessage"`)})
		table.add(&request{id: json.RawMessage("1"), limit: time.Second, expired: func() { ended = true }})
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended {
			t.Fatal("its time has run")
		}
		// The server takes its question back.
		table.fromServer(&message{method: json.RawMessage(`"notifications/cancelled"`), params: json.RawMessage(`{"requestId":7}`)})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !ended {
			t.Error("its time never ran again")
		}
	})
}

func TestAStoppedClockStaysStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		c := newClock(time.Second, func() { ended = true })
		c.pause()
		c.stop()
		c.resume()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended {
			t.Error("it ended")
		}
	})
}
