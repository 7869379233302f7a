package config

import (
	"reflect"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestGuardSaysWhatIsDoneAroundACircuit(t *testing.T) {
	c := parse(t, `
circuits: {tool/crm/*: {unit: attempt, on_open: stop_run}, tool/calc/*: {guard: off}}
thrash: {identify: {tool/*: [id], tool/crm/lookup: [/customer]}}
`)
	for circuit, want := range map[string]fusebox.Guard{
		"tool/crm/lookup": {Identify: []string{"/customer"}, StopRun: true, PerAttempt: true},
		"tool/crm/update": {Identify: []string{"id"}, StopRun: true, PerAttempt: true},
		"tool/calc/add":   {Identify: []string{"id"}, ThrashOff: true},
		"model/x":         {},
	} {
		if got := c.Guard(circuit); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: have %+v, want %+v", circuit, got, want)
		}
	}
	if off := parse(t, "thrash: off"); !off.ThrashOff || !off.Guard("tool/x").ThrashOff {
		t.Error("thrash: off is not off")
	}
}
