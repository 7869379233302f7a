package docs_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The table of false opens in thresholds.md is what its formula gives.
func TestThresholdTable(t *testing.T) {
	text, err := os.ReadFile("thresholds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) % \|(.*)\|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("no rows found")
	}
	for _, row := range rows {
		percent, _ := strconv.ParseFloat(row[1], 64)
		p := percent / 100
		for i, cell := range strings.Split(row[2], "|") {
			k := []float64{2, 3, 5}[i]
			want := (1 - math.Pow(p, k)) / ((1 - p) * math.Pow(p, k))
			got, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil || math.Abs(got-want) >= 1 {
				t.Errorf("%v %%, %v in a row: %s, want %.1f", percent, k, cell, want)
			}
		}
	}
}
