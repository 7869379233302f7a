package replay

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
)

// The plot has a panel for each family of rules. On the left axis are the false
// opens in 30 days, each step ten times the one before; on the right the seconds
// until a total outage is seen.
const (
	panelWidth, panelHeight = 300, 260
	panelGap, panelTop      = 70, 70
	leastOpens, mostOpens   = -4.0, 5.0 // powers of ten on the left axis
)

// Plot writes an SVG picture of both errors against the threshold: opening
// falsely, and seeing an outage late.
func (t *Tuning) Plot(w io.Writer, target Target) error {
	var b bytes.Buffer
	width := panelGap + len(families)*(panelWidth+panelGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="11">`+"\n",
		width, panelTop+panelHeight+60)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">%s: false opens against delay</text>`+"\n", panelGap, html.EscapeString(t.Circuit))
	fmt.Fprintf(&b, `<text x="%d" y="40"><tspan fill="#c0392b">line: false opens in 30 days, by formula</tspan>`+
		`<tspan dx="14" fill="#c0392b">dots: in the log</tspan><tspan dx="14" fill="#2471a3">dashes: seconds until an outage is seen</tspan>`+
		`<tspan dx="14" fill="#888">grey: the target</tspan></text>`+"\n", panelGap)
	for i, f := range families {
		p := panel{&b, float64(panelGap + i*(panelWidth+panelGap)), t.slowest()}
		p.frame(f.name, target)
		p.curves(t, f.name)
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

// slowest is the longest delay of a candidate.
func (t *Tuning) slowest() float64 {
	most := 0.0
	for _, c := range t.Candidates {
		if c.Detect != nil {
			most = max(most, *c.Detect)
		}
	}
	return most
}

// panel draws one family of rules.
type panel struct {
	b       *bytes.Buffer
	left    float64
	slowest float64 // top of the right axis, seconds
}

func (p *panel) x(threshold int) float64 {
	last := thresholds[len(thresholds)-1]
	return p.left + panelWidth*float64(threshold)/float64(last+1)
}

// opens is the height of a number of false opens, kept within the panel.
func (p *panel) opens(n float64) float64 {
	power := leastOpens
	if n > 0 {
		power = min(max(math.Log10(n), leastOpens), mostOpens)
	}
	return panelTop + panelHeight*(mostOpens-power)/(mostOpens-leastOpens)
}

func (p *panel) delay(seconds float64) float64 {
	return panelTop + panelHeight*(1-seconds/max(p.slowest, 1e-9))
}

func (p *panel) frame(family string, target Target) {
	fmt.Fprintf(p.b, `<rect x="%.0f" y="%d" width="%d" height="%d" fill="none" stroke="#444"/>`+"\n", p.left, panelTop, panelWidth, panelHeight)
	for power := leastOpens; power <= mostOpens; power++ {
		fmt.Fprintf(p.b, `<text x="%.0f" y="%.1f" text-anchor="end" fill="#c0392b">%g</text>`+"\n",
			p.left-4, p.opens(math.Pow(10, power))+4, math.Pow(10, power))
	}
	for _, share := range []float64{0, 0.5, 1} {
		fmt.Fprintf(p.b, `<text x="%.0f" y="%.1f" fill="#2471a3">%.3g</text>`+"\n",
			p.left+panelWidth+4, p.delay(share*p.slowest)+4, share*p.slowest)
	}
	for _, k := range thresholds {
		fmt.Fprintf(p.b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", p.x(k), panelTop+panelHeight+16, k)
	}
	words := map[string]string{"streak": "k failures in a row", "of": "k of the last 2k", "count": "k within the window"}
	fmt.Fprintf(p.b, `<text x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n", p.left+panelWidth/2, panelTop+panelHeight+36, words[family])
	y := p.opens(target.monthly())
	fmt.Fprintf(p.b, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1[3]f" stroke="#888"/>`+"\n", p.left, p.left+panelWidth, y)
}

func (p *panel) curves(t *Tuning, family string) {
	var opens, delays bytes.Buffer
	for _, c := range t.Candidates {
		if c.family != family || c.Formula == nil {
			continue
		}
		fmt.Fprintf(&opens, "%.1f,%.1f ", p.x(c.threshold), p.opens(*c.Formula))
		if c.Detect != nil {
			fmt.Fprintf(&delays, "%.1f,%.1f ", p.x(c.threshold), p.delay(*c.Detect))
		}
		if c.Replayed != nil {
			fmt.Fprintf(p.b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#c0392b"/>`+"\n", p.x(c.threshold), p.opens(*c.Replayed))
		}
	}
	fmt.Fprintf(p.b, `<polyline points="%s" fill="none" stroke="#c0392b" stroke-width="1.5"/>`+"\n", bytes.TrimSpace(opens.Bytes()))
	fmt.Fprintf(p.b, `<polyline points="%s" fill="none" stroke="#2471a3" stroke-width="1.5" stroke-dasharray="5 3"/>`+"\n", bytes.TrimSpace(delays.Bytes()))
}
