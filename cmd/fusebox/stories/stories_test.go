package stories

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func tell(t *testing.T, name string) Story {
	t.Helper()
	s, err := Tell(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNumbers(t *testing.T) {
	for name, want := range map[string]string{
		"interleaved sessions": `{"story":"interleaved sessions","with":{"calls":5,"denied":1,"failures":3,"opened":1},` +
			`"without":{"calls":6,"denied":0,"failures":4,"opened":0}}`,
		"retry loop": `{"story":"retry loop","with":{"calls":3,"denied":5,"phase":"closed",` +
			`"calls_down":3,"denied_down":5,"phase_down":"open","calls_recovery":1,"denied_recovery":7,"phase_recovery":"closed"},` +
			`"without":{"calls":8,"calls_down":8,"calls_recovery":8}}`,
		"long outage": `{"story":"long outage","with":{"calls":17,"denied":6},"without":{"calls":23}}`,
		"worker fleet": `{"story":"worker fleet","with":{"calls":8,"calls_before_open":4,"probes":5,"probes_peak_1s":1},` +
			`"without":{"calls":73,"calls_before_open":33,"probes":50,"probes_peak_1s":10}}`,
		"local first": `{"story":"local first","with":{"calls":60,"paid_calls":16,"opened":1,"paid_first_calls":0},` +
			`"without":{"calls":60,"paid_calls":30,"opened":4,"paid_first_calls":5}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tell(t, name))
			if err != nil || string(got) != want {
				t.Errorf("got  %s\nwant %s\n%v", got, want, err)
			}
		})
	}
}

func TestTell(t *testing.T) {
	want := []string{"interleaved sessions", "retry loop", "long outage", "worker fleet", "local first"}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	for _, name := range []string{"long outage", "long-outage", " Long  Outage"} {
		if s := tell(t, name); s.Name != "long outage" {
			t.Errorf("%q tells %q", name, s.Name)
		}
	}
	if _, err := Tell("short outage"); err == nil || !strings.Contains(err.Error(), "want interleaved sessions") {
		t.Errorf("of a story that is none: %v", err)
	}
}

// A story tells itself: nothing in it is left to chance, or to the clock.
func TestStoriesAreTheSameEachTime(t *testing.T) {
	for _, name := range Names() {
		first, second := tell(t, name), tell(t, name)
		if !reflect.DeepEqual(first, second) {
			t.Errorf("first\n%+v\nthen\n%+v", first, second)
		}
		if first.Title == "" || first.Setting == "" || first.With.Text == "" || first.Without.Text == "" || first.Why == "" {
			t.Errorf("something is not told: %+v", first)
		}
	}
}

// cells returns the column of a story's table, without its heading.
func cells(s Story, column int) []string {
	var list []string
	for _, row := range s.Table[1:] {
		list = append(list, row[column])
	}
	return list
}

func TestThirdFailure(t *testing.T) {
	s := tell(t, "interleaved sessions")
	if got, want := cells(s, 2), []string{"1", "2", "0", "1", "0", "1"}; !slices.Equal(got, want) {
		t.Errorf("in a row %q, want %q", got, want)
	}
	if got, want := cells(s, 3), []string{"1", "2", "2", "3: opens", "ran on", "not started"}; !slices.Equal(got, want) {
		t.Errorf("in a window %q, want %q", got, want)
	}
}

func TestOutageSurvivesTwoProbes(t *testing.T) {
	var told []string
	for _, row := range tell(t, "long outage").Table[1:] {
		told = append(told, strings.Join(row, "|"))
	}
	if len(told) != 13 {
		t.Fatalf("%d runs, want 13", len(told))
	}
	for run, want := range map[int]string{
		3:  "3|3 calls|failed|3 calls|failed|closed → open",
		6:  "6|1 call|ok|3 calls|failed|open → open, by a probe",
		9:  "9|1 call|ok|3 calls|failed|open → open, by a probe",
		11: "11|1 call|ok|0 calls|denied|open → open",
		12: "12|1 call|ok|1 call|ok|open → closed, by a probe",
	} {
		if told[run-1] != want {
			t.Errorf("run %d: %s, want %s", run, told[run-1], want)
		}
	}
}

func TestRefusedCallersAreToldWhatToDo(t *testing.T) {
	said := tell(t, "retry loop").Said
	if len(said) != 2 || !strings.Contains(said[0], "exact arguments") || !strings.Contains(said[1], "Continue without it") {
		t.Errorf("%q", said)
	}
}

// Jitter keeps the probes of circuits apart that opened together.
func TestJitterSpreadsProbes(t *testing.T) {
	peaks := cells(tell(t, "worker fleet"), 3)
	if want := []string{"", "10", "3", "1"}; !slices.Equal(peaks, want) {
		t.Errorf("most probes in a second: %q, want %q", peaks, want)
	}
}
