package docs_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/admin"
)

// metrics.md names every metric that the admin listener serves, and no other:
// not in its table, and not in its alerts.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	served := names(scrape(t))
	documented := names(string(text))
	for name := range documented {
		if !served[name] {
			t.Errorf("metrics.md names %s, which is not served", name)
		}
	}
	for name := range served {
		if !documented[name] {
			t.Errorf("%s is served and stands not in metrics.md", name)
		}
	}
}

var histogramParts = regexp.MustCompile(`_(bucket|sum|count)$`)

func names(text string) map[string]bool {
	found := map[string]bool{}
	for _, name := range regexp.MustCompile(`\bfusebox_[a-z_]+`).FindAllString(text, -1) {
		found[histogramParts.ReplaceAllString(name, "")] = true
	}
	return found
}

// scrape returns the metrics of a process to which everything happened that
// there is a metric for.
func scrape(t *testing.T) (text string) {
	synctest.Test(t, func(t *testing.T) {
		policy := func(circuit string) fusebox.Policy {
			p := fusebox.DefaultPolicy("tool")
			p.Cooldown = fusebox.Cooldown{After: time.Second}
			p.Observe = circuit == "tool/observed"
			p.Overdue = time.Minute
			return p
		}
		store := fusebox.NewMemory()
		box, err := fusebox.New(fusebox.Config{Policy: policy, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		handler, err := admin.New(admin.Config{Box: box, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		report := func(name string, r fusebox.Result, takes time.Duration) {
			circuit, err := box.Circuit(name)
			if err != nil {
				t.Fatal(err)
			}
			if permit, err := circuit.Allow(context.Background()); err == nil {
				time.Sleep(takes)
				permit.Done(r)
			}
		}
		failure := fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: errors.New("status 500")}
		for _, name := range []string{"tool/crm", "tool/observed"} {
			report(name, fusebox.Result{Attempts: 2}, time.Millisecond)
			for range 4 { // the fourth is denied
				report(name, failure, 0)
			}
		}
		time.Sleep(2 * time.Second)
		report("tool/crm", fusebox.Result{}, 0) // the probe
		report("tool/crm", fusebox.Result{}, 2*time.Minute)
		report("tool/crm", fusebox.Result{Outcome: fusebox.Throttled}, 0)

		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://localhost/metrics", nil)
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		text = w.Body.String()
		handler.Close()
		if err := box.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return text
}
