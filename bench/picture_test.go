package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drawn reads a picture as XML, and counts its elements.
func drawn(t *testing.T, path string) (text string, elements map[string]int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	elements = map[string]int{}
	d := xml.NewDecoder(strings.NewReader(string(b)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return string(b), elements
		}
		if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
}

func TestPicture(t *testing.T) {
	f := newFindings(1)
	path := filepath.Join(t.TempDir(), "growth.svg")
	if f.drawTo(path) == nil {
		t.Error("a picture of nothing was drawn")
	}
	line := func(size int, costs ...float64) *sized {
		l := &sized{size: size}
		for _, c := range costs {
			l.took = append(l.took, spread{c})
		}
		return l
	}
	f.grown = []*grown{
		{title: "flat & falling", grows: "lines", columns: []string{"ns, <flat>", "ns, falling"}, lines: []*sized{line(1000, 5, 800), line(30_000_000, 5, 2)}},
		{title: "steep", grows: "marks", columns: []string{"ns"}, lines: []*sized{line(10, 2), line(100, 20), line(10_000, 2000)}},
		{title: "not measured", grows: "marks", columns: []string{"ns"}, lines: []*sized{line(10, 0), line(100, 0)}},
	}
	if err := f.drawTo(path); err != nil {
		t.Fatal(err)
	}
	text, elements := drawn(t, path)
	if elements["polyline"] != 4 || elements["g"] != 3 {
		t.Errorf("%d curves in %d panels, want 4 in 3", elements["polyline"], elements["g"])
	}
	for _, want := range []string{"prefers-color-scheme: dark", "flat &amp; falling", "ns, &lt;flat&gt;, from 5.00", ">30M<", "× 1000", "× 0.001"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("a place that is none, in\n%s", text)
	}
	// Flat is flat, and what grows by 1000 over three powers of ten goes up by
	// as many of the scale's.
	for _, want := range []string{`points="52.0,107.5 390.0,107.5 "`, `points="52.0,164.5 164.7,127.0 390.0,52.0 "`} {
		if !strings.Contains(text, want) {
			t.Errorf("no curve %s in\n%s", want, text)
		}
	}
}
