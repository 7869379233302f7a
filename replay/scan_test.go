package replay

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/fusebox-go/fusebox"
)

// agree fails if the scanner is sure of a line and ParseEvent reads it otherwise.
func agree(t *testing.T, line []byte) (sure bool) {
	t.Helper()
	var s scanner
	var got record
	if !s.scan(line, &got) {
		return false
	}
	e, err := fusebox.ParseEvent(line)
	if err != nil {
		_, refused := fusebox.CanonicalName(string(got.circuit))
		if refused == nil && !bytes.Contains(line, []byte(`"state"`)) {
			t.Errorf("%s: the scanner is sure, ParseEvent says %v", line, err)
		}
		return true
	}
	want := recordOf(&e)
	if name, err := fusebox.CanonicalName(string(got.circuit)); err == nil {
		got.circuit = []byte(name)
	}
	if len(got.circuit) == 0 {
		got.circuit = want.circuit
	}
	if e.Kind != fusebox.KindEvidence || !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n the scanner reads %+v\nParseEvent reads %+v", line, got, want)
	}
	return true
}

var scanLines = []struct {
	line string
	sure bool
}{
	{`{"at":"2026-11-29T12:09:00.123456Z","circuit":"model/openai/gpt-5","outcome":"failure","class":"timeout","ms":5000.25,"worker":"h:1","v":3,"error":"deadline exceeded"}`, true},
	{`{"at":"2026-11-29T12:09:00Z","circuit":"Model/A","outcome":"success","ms":0.1,"n":12,"since":"2026-11-29T12:00:00.000000001Z"}`, true},
	{` { "outcome" : "canceled" , "at" : "2024-02-29T23:59:59Z" } `, true},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"rejected","error":"he said \"no\" é ü","new":[1,-2.5e3,{"a":null,"b":[]},true,false]}`, true},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"throttled","run":"r","call":"x","late":true,"attempts":3}`, true},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","state":{"phase":"closed","version":3,"marks":[1,2,3]}}`, true},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","at":"2026-11-29T12:09:01Z"}`, true},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","class":"unheard-of"}`, true},

	{`{"At":"2026-11-29T12:09:00Z","outcome":"success"}`, false},
	{`{"at":"2026-11-29T12:09:00+01:00","outcome":"success"}`, false},
	{`{"at":"2026-02-29T12:09:00Z","outcome":"success"}`, false},
	{`{"at":"2026-11-29T24:09:00Z","outcome":"success"}`, false},
	{`{"at":"2026-11-29T12:09:00.Z","outcome":"success"}`, false},
	{`{"at":"2026-11-29T12:09:00.1234567891Z","outcome":"success"}`, false},
	{`{"at":"1969-11-29T12:09:00Z","outcome":"success"}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"Success"}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","ms":-1}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","ms":01}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","ms":null}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","n":1.5}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","circuit":"caf\u00e9"}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","worker":7}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","x":"\q"}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success","x":[1,]}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success",}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success"}}`, false},
	{`{"at":"2026-11-29T12:09:00Z","outcome":"success"`, false},
	{`{"at":"2026-11-29T12:09:00Z"}`, false},
	{`{"outcome":"success"}`, false},
	{`{"kind":"transition","at":"2026-11-29T12:09:00Z","from":"closed","to":"open"}`, false},
	{`{}`, false},
	{`[]`, false},
	{``, false},
}

func TestScanAgreesWithParseEvent(t *testing.T) {
	for _, test := range scanLines {
		if sure := agree(t, []byte(test.line)); sure != test.sure {
			t.Errorf("%s: sure = %v, want %v", test.line, sure, test.sure)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, test := range scanLines {
		f.Add([]byte(test.line))
	}
	f.Fuzz(func(t *testing.T, line []byte) { agree(t, line) })
}
