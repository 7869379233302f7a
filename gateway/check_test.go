package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func TestCheckAsksEveryBackendForItsModels(t *testing.T) {
	serve := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/models" {
				t.Errorf("want GET /v1/models, have %s %s", r.Method, r.URL.Path)
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	backends := []Backend{
		{Name: "well", URL: serve(200, `{"object":"list","data":[]}`), Dialect: OpenAI},
		{Name: "sick", URL: serve(500, `{}`), Dialect: Anthropic},
		{Name: "gone", URL: Nobody(t), Dialect: OpenAI},
		{Name: "yours", URL: serve(401, `{"error":{"code":"invalid_api_key"}}`), Dialect: OpenAI, ClientKey: true},
		{Name: "mine", URL: serve(401, `{"error":{"code":"invalid_api_key"}}`), Dialect: OpenAI, Key: func() string { return "k" }, KeyName: "MY_KEY"},
	}
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	g, err := New(Config{Box: box, Backends: backends})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()

	want := map[string]bool{"well": true, "sick": false, "gone": false, "yours": true, "mine": false}
	for _, c := range g.Check(t.Context()) {
		if (c.Err == nil) != want[c.Backend] || c.Circuit != "model/"+c.Backend+"/*" {
			t.Errorf("%s: want ok=%v, have circuit %s, %v", c.Backend, want[c.Backend], c.Circuit, c.Err)
		}
	}
	health := map[string]fusebox.Health{}
	for _, s := range box.Circuits() {
		health[s.Circuit] = s.Health
	}
	for name, want := range map[string]fusebox.Health{
		"model/well/*": fusebox.Up, "model/sick/*": fusebox.Up, // one failure is no outage
		"credential/my_key": fusebox.Down, // but a refused key is
	} {
		if health[name] != want {
			t.Errorf("%s: want %v, have %v", name, want, health[name])
		}
	}
	for _, c := range g.Check(t.Context()) {
		if c.Backend == "mine" && fusebox.AsDenial(c.Err) == nil {
			t.Errorf("want a denial while the credential's circuit is open, have %v", c.Err)
		}
	}
}

// Checks that nobody makes any more hold nothing back.
func TestNothingWaitsForChecksThatNobodyMakes(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	g, err := New(Config{Box: box, Backends: []Backend{{Name: "a", URL: Nobody(t), Dialect: OpenAI, Check: ActiveCheck{Every: time.Minute, Probe: true}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	a := g.backends[0]
	circuit, err := a.circuit("m")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		a.checker().check(t.Context(), g)
	}
	for _, c := range []struct {
		after time.Duration
		waits bool
	}{{0, true}, {3 * time.Minute, true}, {4 * time.Minute, false}} {
		d, err := a.awaits(circuit, time.Now().Add(c.after))
		if err != nil || (d != nil) != c.waits {
			t.Errorf("after %v without a check: %v, %v", c.after, d, err)
		}
	}
}
