package config

import (
	"reflect"
	"testing"
)

func TestDiscover(t *testing.T) {
	for _, test := range []struct {
		name   string
		ollama bool
		env    map[string]string
		want   []string
	}{
		{"nothing", false, nil, nil},
		{"a local model", true, nil, []string{"ollama"}},
		{"what is local before what is paid", true, map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, []string{"ollama", "openai", "anthropic"}},
		{"one provider", false, map[string]string{"ANTHROPIC_API_KEY": "k"}, []string{"anthropic"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := ""
			c := Discover(func(name string) string { return test.env[name] }, func(url string) bool { asked = url; return test.ollama })
			if asked != "http://127.0.0.1:11434" {
				t.Errorf("asked %q", asked)
			}
			var names []string
			for _, b := range c.Backends {
				names = append(names, b.Name)
			}
			if !reflect.DeepEqual(names, test.want) {
				t.Fatalf("have %v, want %v", names, test.want)
			}
			r, found := c.Route("any-model")
			if found != (len(test.want) > 0) || found && !reflect.DeepEqual(r.Backends, InOrder(test.want...)) {
				t.Errorf("route: %+v", r)
			}
			if !c.Loaded.IsZero() || len(c.Settings("model/ollama/x").Patterns) > 0 {
				t.Error("what is found is no configuration of circuits")
			}
		})
	}
}

func TestModelNamesAreMapped(t *testing.T) {
	b := Backend{Models: map[string]string{"*": "any", "gpt-*": "gpt", "gpt-5": "five"}}
	for from, to := range map[string]string{"x": "any", "gpt-4": "gpt", "gpt-5": "five"} {
		if got := b.Model(from); got != to {
			t.Errorf("%s is mapped to %s, want %s", from, got, to)
		}
	}
	if got := (Backend{}).Model("x"); got != "x" {
		t.Errorf("without a map x becomes %s", got)
	}
}

func TestTimeoutsThatAreNotSaid(t *testing.T) {
	have := Timeouts{Idle: 1}.OrDefault()
	want := DefaultTimeouts
	want.Idle = 1
	if have != want {
		t.Errorf("have %+v, want %+v", have, want)
	}
}
