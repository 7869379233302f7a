package fusebox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestTextsReplaceTheBuiltIn(t *testing.T) {
	texts, err := fusebox.ParseTexts(`
		{{define "thrash"}}Nein: {{.Tool}} ({{.Circuit}}) in {{.Run}}, {{.Failures}} mal, {{.LastError}}.{{end}}
		{{define "thrash.3"}}Schluss nach {{.Times}}. {{list .Working}} geht.{{end}}`)
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(t, fusebox.Config{Retry: once, Thrash: fusebox.Thrash{Texts: texts}})
	c, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
	if err := (&backend{answer: func(string) error { return nil }}).call(t, r, circuit(t, b, "tool/search"), "x"); err != nil {
		t.Fatal(err)
	}
	be := backend{answer: alwaysRejects}
	var got []string
	for range 7 {
		if d := fusebox.AsDenial(be.call(t, r, c, "1")); d != nil {
			got = append(got, d.Instruction())
		}
	}
	want := []string{
		"Nein: crm/lookup (tool/crm/lookup) in r, 3 mal, no such customer.",
		"This exact call of crm/lookup stays refused: ",
		"Schluss nach 3. search geht.",
		"Schluss nach 4. search geht.",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("have %q\nwant %q", got, want)
		}
	}
	if d := fusebox.AsDenial(be.call(t, r, c, "1")); !errors.Is(d, fusebox.ErrThrash) {
		t.Errorf("have %v", d)
	}
}

func TestParseTextsRefusesMistakes(t *testing.T) {
	for name, src := range map[string]string{
		"syntax":        `{{define "open"}}{{.Tool}`,
		"unknown text":  `{{define "opened"}}x{{end}}`,
		"unknown form":  `{{define "open.4"}}x{{end}}`,
		"unknown field": `{{define "open"}}{{.Epoch}}{{end}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := fusebox.ParseTexts(src); err == nil {
				t.Error("accepted")
			} else {
				t.Log(err)
			}
		})
	}
}

func TestADenialQuotesNoAdviceToRepeat(t *testing.T) {
	for text, want := range map[string]string{
		"503 Service Unavailable, please try again later": "the last: 503 Service Unavailable)",
		"Overloaded. Retrying in 5 s might help.":         "the last: Overloaded)",
		"limit reached, resets at 1767225600":             "the last: limit reached, resets at)",
		"try again":                                       "after 3 failures)",
		"country 42 unknown":                              "the last: country 42 unknown)",
	} {
		d := fusebox.NewDenial(fusebox.DenialInfo{Circuit: "tool/x", Reason: fusebox.ReasonOpen, Failures: 3, LastError: text})
		if got := d.Instruction(); !strings.Contains(got, want) {
			t.Errorf("%q gives %q, want %q in it", text, got, want)
		}
		if d.LastError() != text {
			t.Errorf("the error itself became %q", d.LastError())
		}
	}
}
