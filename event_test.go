package fusebox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

func TestParseEvent(t *testing.T) {
	evidence := func(change func(*fusebox.Event)) fusebox.Event {
		e := fusebox.Event{At: at("12:09"), Circuit: "session/a", Outcome: fusebox.Failure}
		if change != nil {
			change(&e)
		}
		return e
	}
	tests := []struct {
		name string
		line string
		want fusebox.Event
		bad  string // what the error must say; "" = it parses
	}{
		{name: "least", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure"}`, want: evidence(nil)},
		{name: "explicit kind", line: `{"kind":"evidence","at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure"}`, want: evidence(nil)},
		{name: "another zone", line: `{"at":"2026-11-29T14:09:00+02:00","circuit":"session/a","outcome":"failure"}`, want: evidence(nil)},
		{name: "other spelling of the name", line: `{"at":"2026-11-29T12:09:00Z","circuit":" Session//A/","outcome":"failure"}`, want: evidence(nil)},
		{name: "unknown field", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","mood":{"a":[1,"}"]}}`, want: evidence(nil)},
		{name: "outer space", line: "  {\"at\":\"2026-11-29T12:09:00Z\" ,\t\"circuit\" : \"session/a\",\r\"outcome\":\"failure\"}\r", want: evidence(nil)},
		{name: "null fields", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","v":null,"n":null,"error":null,"since":null}`, want: evidence(nil)},
		{name: "fraction of a millisecond", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","ms":1.5}`,
			want: evidence(func(e *fusebox.Event) { e.Elapsed = 1500 * time.Microsecond })},
		{name: "fraction of a second", line: `{"at":"2026-11-29T12:09:00.25Z","circuit":"session/a","outcome":"failure"}`,
			want: evidence(func(e *fusebox.Event) { e.At = at("12:09:00.25") })},
		{name: "escaped text", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","error":"a\"b\u00e9\n"}`,
			want: evidence(func(e *fusebox.Event) { e.Error = "a\"bé\n" })},
		{name: "admitted in version 0", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","v":0}`,
			want: evidence(func(e *fusebox.Event) { e.Admitted = true })},
		{name: "a negative time", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","ms":-5}`, want: evidence(nil)},
		{name: "an unknown kind", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","kind":"tomorrow"}`,
			want: fusebox.Event{At: at("12:09"), Circuit: "session/a", Kind: "tomorrow"}},
		{name: "key in capitals", line: `{"AT":"2026-11-29T12:09:00Z","Circuit":"session/a","outcome":"failure"}`, want: evidence(nil)},

		{name: "a state that cannot be read", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","state":{"policy":{"trip":["tomorrow=3"]}}}`, want: evidence(nil)},
		{name: "an impossible state", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","state":{"phase":"closed","refused":-3}}`, want: evidence(nil)},

		{name: "torn", line: `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outco`, bad: "JSON"},
		{name: "empty", line: ``, bad: "JSON"},
		{name: "not an object", line: `[]`, bad: "cannot unmarshal"},
		{name: "two objects", line: `{"at":"2026-11-29T12:09:00Z","outcome":"failure"}{}`, bad: "after top-level"},
		{name: "no time", line: `{"outcome":"failure"}`, bad: "at:"},
		{name: "a time without a zone", line: `{"at":"2026-11-29T12:09:00","outcome":"failure"}`, bad: "at:"},
		{name: "a time as a number", line: `{"at":1796299260,"outcome":"failure"}`, bad: "at"},
		{name: "the year 1", line: `{"at":"0001-01-01T00:00:00Z","outcome":"failure"}`, bad: "at:"},
		{name: "the year 9999", line: `{"at":"9999-01-01T00:00:00Z","outcome":"failure"}`, bad: "at:"},
		{name: "no outcome", line: `{"at":"2026-11-29T12:09:00Z"}`, bad: "outcome"},
		{name: "an unknown outcome", line: `{"at":"2026-11-29T12:09:00Z","outcome":"fine"}`, bad: "fine"},
		{name: "a name with a path trick", line: `{"at":"2026-11-29T12:09:00Z","circuit":"../etc","outcome":"failure"}`, bad: "path segment"},
		{name: "a bad since", line: `{"at":"2026-11-29T12:09:00Z","outcome":"success","since":"noon"}`, bad: "since"},
		{name: "a bad until", line: `{"at":"2026-11-29T12:09:00Z","outcome":"throttled","until":"noon"}`, bad: "until"},
		{name: "a negative run", line: `{"at":"2026-11-29T12:09:00Z","outcome":"success","n":-1}`, bad: "n and attempts"},
		{name: "a negative version", line: `{"at":"2026-11-29T12:09:00Z","outcome":"success","v":-1}`, bad: "v"},
		{name: "a hold at nothing", line: `{"at":"2026-11-29T12:09:00Z","kind":"hold","action":"held"}`, bad: "want open or closed"},
		{name: "a hold at half-open", line: `{"at":"2026-11-29T12:09:00Z","kind":"hold","action":"held","to":"half-open"}`, bad: "want open or closed"},
		{name: "a run as a text", line: `{"at":"2026-11-29T12:09:00Z","outcome":"success","n":"3"}`, bad: "n"},
		{name: "too long", line: `{"at":"2026-11-29T12:09:00Z","outcome":"success","error":"` + strings.Repeat("x", fusebox.MaxLine) + `"}`, bad: "at most"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			have, err := fusebox.ParseEvent([]byte(test.line))
			if test.bad != "" {
				if !errors.Is(err, fusebox.ErrMalformed) || !strings.Contains(err.Error(), test.bad) {
					t.Errorf("error %v, want ErrMalformed that says %q", err, test.bad)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(have, test.want) {
				t.Errorf("error %v\nhave %+v\nwant %+v", err, have, test.want)
			}
		})
	}
}

// drawEvent makes any event that a writer could have: not only those that make
// sense.
func drawEvent(t *rapid.T) fusebox.Event {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "no time") {
			return time.Time{}
		}
		return noon.Add(time.Duration(rapid.Int64Range(-int64(20*365*24*time.Hour), int64(20*365*24*time.Hour)).Draw(t, "ns")))
	})
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "", "w1", "a b", `"\`, "é\x01<&>\u2028"}), rapid.String())
	e := fusebox.Event{
		Kind: rapid.SampledFrom([]fusebox.EventKind{"", "", fusebox.KindTransition, fusebox.KindLease, fusebox.KindDenied, fusebox.KindStart,
			fusebox.KindThrottle, fusebox.KindHold, fusebox.KindTrip, fusebox.KindReset, fusebox.KindCheckpoint, "unheard-of"}).Draw(t, "kind"),
		At:       noon.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "at"))),
		Circuit:  rapid.SampledFrom([]string{"", "session/a", "model/é/x:y"}).Draw(t, "circuit"),
		Class:    rapid.SampledFrom(append([]fusebox.Class{"", "future"}, fusebox.Classes...)).Draw(t, "class"),
		Elapsed:  time.Duration(rapid.Int64Range(0, int64(10*24*time.Hour)).Draw(t, "elapsed")),
		N:        rapid.IntRange(0, 1_000_000).Draw(t, "n"),
		Since:    moment.Draw(t, "since"),
		Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
		Worker:   word.Draw(t, "worker"), Run: word.Draw(t, "run"), Call: word.Draw(t, "call"), Error: word.Draw(t, "error"),
		Lease: word.Draw(t, "lease"), Late: rapid.Bool().Draw(t, "late"), Overdue: rapid.Bool().Draw(t, "overdue"),
		Until:      moment.Draw(t, "until"),
		Action:     rapid.SampledFrom([]string{"", fusebox.ActionGranted, fusebox.ActionHeld, fusebox.ActionLifted}).Draw(t, "action"),
		LastResort: rapid.Bool().Draw(t, "resort"), Pick: rapid.Bool().Draw(t, "pick"),
		Reason: rapid.SampledFrom([]fusebox.Reason{"", fusebox.ReasonOpen}).Draw(t, "reason"), Observed: rapid.Bool().Draw(t, "observed"),
		Cause: word.Draw(t, "cause"),
	}
	phase := rapid.SampledFrom([]fusebox.Phase{fusebox.Closed, fusebox.Open, fusebox.HalfOpen})
	switch e.Kind {
	case fusebox.KindEvidence:
		e.Outcome = fusebox.Outcome(rapid.IntRange(0, int(fusebox.Canceled)).Draw(t, "outcome"))
	case fusebox.KindTransition:
		e.From, e.Phase, e.Failures = phase.Draw(t, "from"), phase.Draw(t, "to"), rapid.IntRange(0, 9).Draw(t, "failures")
		e.Version = rapid.Uint64().Draw(t, "version")
		return e
	case fusebox.KindHold:
		e.Phase = rapid.SampledFrom([]fusebox.Phase{fusebox.Closed, fusebox.Open}).Draw(t, "held at")
		if e.Action == fusebox.ActionLifted {
			e.Phase = fusebox.Closed
		}
	}
	if rapid.Bool().Draw(t, "admitted") {
		e.Admitted, e.Version = true, rapid.Uint64().Draw(t, "version")
	}
	return e
}

func TestI16EventSurvivesTheLog(t *testing.T) {
	check(t, 500, func(t *rapid.T) {
		e := drawEvent(t)
		line := e.AppendJSON(nil)
		have, err := fusebox.ParseEvent(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if !reflect.DeepEqual(have, e) {
			t.Fatalf("line %s\nhave %+v\nwant %+v", line, have, e)
		}
		if strings.ContainsAny(string(line), "\n\r") {
			t.Fatalf("more than one line: %q", line)
		}
	})
}

// TestI16StateSurvivesTheLog folds each history twice: in memory, and with the
// state and the event taken through a line of the log at every step, as a store
// does. Then it folds the log from the start once more.
func TestI16StateSurvivesTheLog(t *testing.T) {
	check(t, 120, func(t *rapid.T) {
		p := drawPolicy(t)
		policy := p.policy()
		h := &history{o: &oracle{p: p}, now: noon}
		seed := fusebox.State{Seed: rapid.Uint64Range(0, 1<<53).Draw(t, "seed")}
		inMemory, stored := seed, seed
		var log [][]byte
		for range rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "steps") {
			e := h.event(t)
			h.o.step(e)
			h.o.version = inMemory.Version // jitter may make them part; any history will do here
			inMemory = fusebox.Fold(policy, inMemory, e)
			read := e
			read.State = &stored
			read, err := fusebox.ParseEvent(read.AppendJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			read.Seen = e.Seen
			state := *read.State
			read.State = nil
			stored = fusebox.Fold(policy, state, read)
			if have, want := text(&stored), text(&inMemory); have != want {
				t.Fatalf("after %s\nstored    %s\nin memory %s", e.AppendJSON(nil), have, want)
			}
			e.State = &stored
			log = append(log, e.AppendJSON(nil))
			if !e.Seen.IsZero() {
				log, inMemory, stored = nil, seed, seed // who refolds takes Seen from the next line; that is the store's to test
			}
		}
		again := seed
		for _, line := range log {
			e, err := fusebox.ParseEvent(line)
			if err != nil {
				t.Fatal(err)
			}
			again = fusebox.Fold(policy, again, e)
			if have, want := text(&again), text(e.State); have != want {
				t.Fatalf("folded again: %s\nrecorded:     %s", have, want)
			}
		}
	})
}

// TestParseEventReadsAsJSONDoes writes events and then spoils the line: a byte
// changed, added, left out, or a piece of another line put in.
func TestParseEventReadsAsJSONDoes(t *testing.T) {
	pieces := []string{`,"n":01`, `"ms":1.`, `"ms":.5`, `"ms":1e3`, `,"v":18446744073709551615`, `"v":-0`, `null`, `,"late":true`, `"LATE":true`, ` `, `\u0041`,
		`é`, `,"state":{"phase":"open","version":3}`, `,"state":{"phase":7}`, `,"state":{"a":"}\""}`, `,"state":{]}`, `,"state":[]`, `,,`, `}`, `{`, `"`, `,"x":1`, `,"at":"2026-11-29T12:00:00Z"`}
	check(t, 1000, func(t *rapid.T) {
		e := drawEvent(t)
		line := e.AppendJSON(nil)
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			i := rapid.IntRange(0, len(line)).Draw(t, "place")
			piece := rapid.SampledFrom(pieces).Draw(t, "piece")
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				line = slices.Insert(line, i, []byte(piece)...)
			case 1:
				line = slices.Delete(line, i, min(i+rapid.IntRange(1, 4).Draw(t, "bytes"), len(line)))
			case 2: // in front of a comma, where fields end
				if j := bytes.IndexByte(line[i:], ','); j >= 0 {
					line = slices.Insert(line, i+j, []byte(piece)...)
				}
			}
		}
		fast, err := fusebox.ParseEvent(line)
		careful, second := fusebox.DecodeEvent(line)
		if !reflect.DeepEqual(fast, careful) || fmt.Sprint(err) != fmt.Sprint(second) {
			t.Fatalf("%q\nis read as %+v, %v\nwithout the fast path %+v, %v", line, fast, err, careful, second)
		}
	})
}

func text(s *fusebox.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func FuzzParseEvent(f *testing.F) {
	for _, line := range []string{
		`{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":5000.25,"error":"exit 1","v":3,"lease":"t"}`,
		`{"at":"2026-11-29T12:09:00.123456789+01:00","outcome":"success","n":7,"since":"2026-11-29T12:08:00Z","attempts":2,"worker":"h/1","run":"r","call":"c"}`,
		`{"at":"2026-11-29T12:09:00Z","kind":"transition","from":"closed","to":"open","version":1,"until":"2026-11-29T13:09:00Z","cause":"x","failures":3}`,
		`{"at":"2026-11-29T12:09:00Z","kind":"lease","action":"granted","lease":"t","last_resort":true,"pick":true}`,
		`{"at":"2026-11-29T12:09:00Z","kind":"denied","n":3,"since":"2026-11-29T12:08:00Z","reason":"open","observed":true}`,
		`{"at":"2026-11-29T12:09:00Z","kind":"hold","action":"held","to":"open","cause":"x"}`,
		`{"at":"2026-11-29T12:09:00Z","kind":"checkpoint","state":{"phase":"open","version":2,"marks":[1,2,3],"windows":[{"first":1,"buckets":[{"all":1,"bad":0}]}]}}`,
		`{"AT":"2026-11-29T12:09:00Z","outcome":"throttled","until":"2026-11-29T12:10:00Z","late":true,"overdue":true}`,
		`{"at":"2026-11-29T12:09:00Z","outcome":"failure","state":{"policy":{"trip":["streak=-1"]}}}`,
		`{"at":"2026-11-29T12:09:00Z","outcome":"failure","error":"\ud800\u0000\"","ms":1e300,"n":9223372036854775807}`,
		"{", "", "null", `""`, "[1,2]", "{}", `{"at":null}`, "\xff\xfe",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := fusebox.ParseEvent(line)
		if careful, second := fusebox.DecodeEvent(line); !reflect.DeepEqual(e, careful) || fmt.Sprint(err) != fmt.Sprint(second) {
			t.Fatalf("%q\nis read as %+v, %v\nwithout the fast path %+v, %v", line, e, err, careful, second)
		}
		if err != nil {
			if !errors.Is(err, fusebox.ErrMalformed) {
				t.Fatalf("not ErrMalformed: %v", err)
			}
			return
		}
		written := e.AppendJSON(nil)
		again, err := fusebox.ParseEvent(written)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", line, written, err)
		}
		if twice := again.AppendJSON(nil); string(twice) != string(written) {
			t.Fatalf("%q\nthen %q", written, twice)
		}
		s := fusebox.Fold(fusebox.Policy{}, fusebox.State{}, e)
		s = fusebox.Fold(fusebox.Policy{}, s, e)
		s.StatusAt("session/a", e.At)
	})
}

// FuzzState folds events of every kind into states that no Fold made: a store
// may lie.
func FuzzState(f *testing.F) {
	for _, s := range []string{
		`{"phase":"open","version":3,"since":"2026-11-29T12:00:00Z","until":"2026-11-29T12:05:00Z","refused":2}`,
		`{"phase":"half-open","version":18446744073709551615,"leases":[{"token":"t","at":"2026-11-29T12:00:00Z","pick":true}]}`,
		`{"phase":"closed","version":0,"throttles":-5,"streak":-3,"votes":18446744073709551615,"worked":9,"failed_probes":-1}`,
		`{"phase":"closed","version":0,"marks":[9223372036854775807,-1,0,1,1,1]}`,
		`{"phase":"closed","version":0,"windows":[{"first":-9223372036854775808,"buckets":[{"all":-1,"bad":9223372036854775807}]}],"policy":{"trip":["rate=0.5,within=20s,calls=1"],"probe":{"concurrent":1,"close_after":1}}}`,
		`{"phase":"closed","version":0,"windows":[{"first":9223372036854775807,"buckets":[{"all":1,"bad":1}]},{"first":1},{"first":2}],"policy":{"trip":["slow=0.5,limit=1s,within=1ms,calls=1"],"probe":{"concurrent":1,"close_after":1}}}`,
		`{"phase":"open","version":0,"until":"9999-12-31T23:59:59Z","since":"0000-01-01T00:00:00Z","hold":{"to":"half-open","at":"2026-11-29T12:00:00Z"}}`,
		`{"phase":"half-open","version":1,"failed_probes":9223372036854775807,"leases":[{"token":"t","at":"2026-11-29T12:00:00Z"}],"policy":{"trip":["streak=1"],"cooldown":{"growth":100},"probe":{"concurrent":1,"close_after":1}}}`,
		`{"phase":"closed","version":1,"latest":"9999-01-01T00:00:00Z","latency_ns":-9223372036854775808,"checked_at":"0000-01-01T00:00:00Z"}`,
		`null`, `{}`, `[]`, `{"policy":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s fusebox.State
		if json.Unmarshal(b, &s) != nil {
			return
		}
		written := text(&s)
		var again fusebox.State
		if err := json.Unmarshal([]byte(written), &again); err != nil {
			t.Fatalf("%q was written as %q: %v", b, written, err)
		}
		if twice := text(&again); twice != written {
			t.Fatalf("%q\nthen %q", written, twice)
		}
		for _, p := range []fusebox.Policy{{}, rules(fusebox.Rate(0.5, 20*time.Second, 1), fusebox.Count(2, time.Minute).Of(3))} {
			next := s
			for _, e := range []fusebox.Event{
				failed("12:00", s.Version), worked("12:00", s.Version), {At: at("12:01"), Outcome: fusebox.Throttled},
				{At: at("12:01"), N: 1 << 62, Since: at("11:00")}, asks("12:02", "x", "12:03"),
				probed("12:02", "t", s.Version, fusebox.Failure), {At: at("12:02"), Outcome: fusebox.Failure},
				refused("12:04", 1<<62, fusebox.ReasonOpen), held("12:04", fusebox.Open, ""), lifted("12:05"),
				{Kind: fusebox.KindTrip, At: at("12:06")}, {Kind: fusebox.KindReset, At: at("12:07")},
				{Kind: fusebox.KindCheckpoint, At: at("12:08"), State: &s},
			} {
				next = fusebox.Fold(p, next, e)
				next.StatusAt("session/a", e.At)
				next.CountAt(e.At)
			}
		}
	})
}
