package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"
)

// readSchema reads docs/fusebox.schema.json, which editors use.
func readSchema(t *testing.T) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "fusebox.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &s, resolved
}

// asJSON is what an editor checks: the YAML's values as JSON has them.
func asJSON(text string) (any, error) {
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var v any
	return v, json.Unmarshal(b, &v)
}

func TestSchemaTakesWhatTheConfigTakes(t *testing.T) {
	_, schema := readSchema(t)
	texts := map[string]string{"full": full}
	examples, err := filepath.Glob(filepath.Join("..", "examples", "*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(b)
	}
	for name, text := range texts {
		v, err := asJSON(text)
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beyondSchema are the mistakes that a JSON Schema cannot see, since they lie in
// how values go together or in the YAML itself.
var beyondSchema = []string{
	"of below count", "both after and calls", "max below after", "max below base",
	"duplicate key", "duplicate circuit in another spelling", "duplicate backend", "duplicate route", "duplicate server",
	"unknown backend", "priorities that fall", "a priority that a name has", "backend twice, with weights", "one address for two", "two documents",
	"off loopback without a token", "every address without a token", "server off loopback without a token",
	"port out of range", "URL with a port that cannot be",
	"pattern without quotes", "anchor", "alias", "merge", "tag", "not YAML", "not text", "control character",
}

func TestSchemaRefusesWhatTheConfigRefuses(t *testing.T) {
	_, schema := readSchema(t)
	for _, m := range mistakes {
		if slices.Contains(beyondSchema, m.name) {
			continue
		}
		v, err := asJSON(m.text)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		} else if schema.Validate(v) == nil {
			t.Errorf("%s: taken: %s", m.name, m.text)
		}
	}
}

// TestSchemaHasTheConfigsKeys holds every map's keys in the JSON Schema to
// those that the decoder names when it meets an unknown one.
func TestSchemaHasTheConfigsKeys(t *testing.T) {
	s, _ := readSchema(t)
	def := func(name string) *jsonschema.Schema { return s.Defs[name] }
	retry, circuit := s.Properties["retry"], def("circuit")
	for text, at := range map[string]*jsonschema.Schema{
		"%":                              s,
		"gateway: {%}":                   def("listener"),
		"admin: {%}":                     def("listener"),
		"circuits: {a: {%}}":             circuit,
		"circuits: {a: {cooldown: {%}}}": circuit.Properties["cooldown"],
		"circuits: {a: {probe: {%}}}":    circuit.Properties["probe"],
		"thrash: {%}":                    def("thrash").AnyOf[1],
		"retry: {%}":                     retry,
		"retry: {budget: {%}}":           retry.Properties["budget"],
		"backends: {a: {%}}":             def("backend"),
		"backends: {a: {limit: {%}}}":    def("backend").Properties["limit"],
		"backends: {a: {check: {%}}}":    def("backend").Properties["check"],
		"backends: {a: {timeouts: {%}}}": def("backend").Properties["timeouts"],
		"routes: [{%}]":                  def("route"),
		"routes: [{backends: [{%}]}]":    def("routeBackend"),
		"mcp: {%}":                       s.Properties["mcp"],
		"mcp: {servers: {a: {%}}}":       def("server"),
		"circuits: {a: {trip: [{%}]}}":   allOf(def("rule").AnyOf),
	} {
		_, err := Parse("f.yaml", []byte(strings.Replace(text, "%", "no_such_key: 1", 1)))
		var errs Errors
		errors.As(err, &errs)
		known := ""
		for _, e := range errs {
			if list, found := strings.CutPrefix(e.Problem, "want one of the keys "); found {
				known, _, _ = strings.Cut(list, ", have")
			}
		}
		var inSchema []string
		for key := range at.Properties {
			inSchema = append(inSchema, key)
		}
		slices.Sort(inSchema)
		if got := strings.Join(inSchema, ", "); got != known {
			t.Errorf("%s: the schema has %s, the configuration %s", text, got, known)
		}
	}
}

// allOf joins the keys of the forms that a rule may have.
func allOf(forms []*jsonschema.Schema) *jsonschema.Schema {
	all := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{}}
	for _, f := range forms {
		for key, v := range f.Properties {
			all.Properties[key] = v
		}
	}
	return all
}
