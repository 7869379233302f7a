package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigMistakesAreToldWithTheirPlace(t *testing.T) {
	tests := []struct {
		name, file string
		says       string
	}{
		{"unknown key", "circiuts: {}\n", "fusebox.yaml:1:1: "},
		{"wrong unit", "circuits:\n  session/*:\n    cooldown: {after: 5}\n", "fusebox.yaml:3:23: "},
		{"threshold below 1", "circuits:\n  a/b: {trip: [{streak: 0}]}\n", "fusebox.yaml:2:25: "},
		{"thrash below 2", "thrash: {repeats: 1}\n", "fusebox.yaml:1:19: "},
		{"token missing off loopback", "gateway: {listen: \"0.0.0.0:4040\"}\n", "token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.write("fusebox.yaml", tt.file)
			r := p.run("config", "check")
			if r.code != exitConfig || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("want exit code 78 and %q, have %d and %q", tt.says, r.code, r.stderr)
			}
			var report struct {
				OK     bool
				Errors []struct{ Line, Column int }
			}
			r = p.run("config", "check", "--json")
			r.decode(t, &report)
			if r.code != exitConfig || report.OK || len(report.Errors) == 0 || report.Errors[0].Line == 0 || report.Errors[0].Column == 0 {
				t.Errorf("--json: exit code %d, %+v", r.code, report)
			}
			if r.stderr != "" {
				t.Errorf("--json has said it all, have %q too", r.stderr)
			}
			if r := p.run("status"); r.code != exitConfig {
				t.Errorf("status under this file: want exit code 78, have %d: %s", r.code, r.stderr)
			}
		})
	}
}

// A key variable that is not set was a warning and exit code 0: who checked a
// file before serving it learnt of the mistake from a server that did not start.
func TestConfigCheckTellsOfAKeyVariableThatIsNotSet(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", `backends:
  paid: {url: "http://127.0.0.1:9/v1", dialect: openai, key: {env: FUSEBOX_TEST_UNSET}}
routes: [{match: "*", backends: [paid]}]
`)
	const says = "fusebox.yaml:2:62: backends.paid.key: want a value in the environment variable FUSEBOX_TEST_UNSET, have none"
	r := p.run("config", "check")
	if r.code != exitConfig || !strings.HasPrefix(r.stderr, says) {
		t.Errorf("want exit code 78 and %q, have %d and %q", says, r.code, r.stderr)
	}
	if !strings.Contains(r.stdout, "\nmodel/*\n") || strings.Contains(r.stdout, "in order") {
		t.Errorf("want what the file comes to all the same, have\n%s", r.stdout)
	}
	var report struct {
		OK       bool
		Errors   []struct{ Line, Column int }
		Circuits []struct{ Name string }
	}
	r = p.run("config", "check", "--json")
	r.decode(t, &report)
	if r.code != exitConfig || r.stderr != "" || report.OK || len(report.Errors) != 1 || report.Errors[0].Line != 2 || len(report.Circuits) == 0 {
		t.Errorf("--json: exit code %d, %q, %+v", r.code, r.stderr, report)
	}
	if r := p.run("status"); r.code != exitOK {
		t.Errorf("status needs no key: want exit code 0, have %d: %s", r.code, r.stderr)
	}
}

func TestConfigFileThatIsNotThere(t *testing.T) {
	r := newPlace(t).run("status", "--config", "nowhere.yaml")
	if r.code != exitConfig || !strings.Contains(r.stderr, "nowhere.yaml") {
		t.Errorf("want exit code 78 and the file's name, have %d and %q", r.code, r.stderr)
	}
}

func TestConfigCheckSaysWhatTheFileComesTo(t *testing.T) {
	p := newPlace(t)
	file := p.write("mine.yaml", "circuits:\n  model/local/*: {trip: [{streak: 2}], on_class: []}\n")
	r := p.must("config", "check", file)
	for _, want := range []string{"mine.yaml is in order", "model/local/*", "opens at 2 failures in a row", "session/*", "effective threshold: 2 failures"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
	var report struct {
		OK       bool
		Circuits []struct {
			Name      string
			Threshold int `json:"effective_threshold"`
			Policy    struct{ Trip []string }
		}
	}
	p.must("config", "check", "--config", file, "--json").decode(t, &report)
	for _, c := range report.Circuits {
		if c.Name == "model/local/*" {
			if c.Threshold != 2 || len(c.Policy.Trip) != 1 || c.Policy.Trip[0] != "streak=2" {
				t.Errorf("model/local/*: %+v", c)
			}
			return
		}
	}
	t.Errorf("model/local/* is missing in %+v", report)
}

func TestExamplesAreInOrder(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("want five examples, have %v, %v", files, err)
	}
	p := newPlace(t)
	for _, key := range []string{"OPENAI_API_KEY", "PROVIDER_API_KEY"} {
		p.env = append(p.env, key+"=a-key-of-the-test")
	}
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		r := p.must("config", "check", path)
		if strings.Contains(r.stdout, "warning") || strings.Contains(r.stdout, "a-key-of-the-test") {
			t.Errorf("%s:\n%s", file, r.stdout)
		}
	}
}

func TestConfigCheckListsTheCircuitsThatAreServed(t *testing.T) {
	p := newPlace(t)
	p.env = append(p.env, "OPENAI_API_KEY=a-key-of-the-test")
	path, err := filepath.Abs("../../examples/local-first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := p.must("config", "check", path)
	for _, want := range []string{localModel + "\n  opens at 2 failures in a row", "\nmodel/paid/gpt-5-mini\n", "\ncredential/openai_api_key\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
}
