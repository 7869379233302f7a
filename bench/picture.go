package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
)

// The picture's measures, in its own units.
const (
	panelWidth  = 400
	panelGap    = 24
	plotLeft    = 52 // within a panel: room for the scale
	plotHeight  = 150
	titleHeight = 26
	labelHeight = 18
	plotGap     = 8
	scaleHeight = 30
	fullRow     = 2 // panels in a row
)

// pictureStyle gives each curve a colour and dashes of its own, on light and
// on dark ground.
const pictureStyle = `
.ground { fill: #ffffff }
text { fill: #1f2328; font: 12px system-ui, sans-serif }
.title { font-weight: 600; font-size: 14px }
.faint { fill: #59636e; font-size: 11px }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.one { stroke: #818b98; stroke-width: 1 }
.curve { fill: none; stroke-width: 2 }
.c0 { stroke: #0969da }
.c1 { stroke: #bc4c00; stroke-dasharray: 7 3 }
.c2 { stroke: #1a7f37; stroke-dasharray: 2 3 }
.c3 { stroke: #8250df; stroke-dasharray: 9 3 2 3 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117 }
  text { fill: #f0f6fc }
  .faint { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .one { stroke: #9198a1 }
  .c0 { stroke: #4493f8 }
  .c1 { stroke: #f0883e }
  .c2 { stroke: #3fb950 }
  .c3 { stroke: #ab7df8 }
}
`

// drawTo writes the picture of what grew to a file.
func (f *findings) drawTo(path string) error {
	if len(f.grown) == 0 {
		return errors.New("a picture is of growth, which was not measured")
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	drawGrowth(file, f.grown)
	return file.Close()
}

// drawGrowth draws each table as a panel of curves: what it costs, as a
// multiple of what it cost at the smallest size. Both scales are logarithmic.
func drawGrowth(out io.Writer, all []*grown) {
	var heights []int // of the rows
	height := panelGap
	for i, g := range all {
		if i%fullRow == 0 {
			heights = append(heights, 0)
		}
		row := &heights[len(heights)-1]
		*row = max(*row, titleHeight+labelHeight*len(g.columns)+plotGap+plotHeight+scaleHeight)
	}
	for _, h := range heights {
		height += h + panelGap
	}
	width := fullRow*(panelWidth+panelGap) + panelGap
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`, width, height)
	fmt.Fprintf(out, "\n<title id=\"title\">What a call costs while something else grows, as a multiple of the cost at the smallest size</title>\n<style>%s</style>\n", pictureStyle)
	fmt.Fprintf(out, `<rect class="ground" width="%d" height="%d"/>`+"\n", width, height)
	y := panelGap
	for i, g := range all {
		x := panelGap + i%fullRow*(panelWidth+panelGap)
		fmt.Fprintf(out, `<g transform="translate(%d %d)">`+"\n", x, y)
		newPanel(g).draw(out)
		fmt.Fprintln(out, "</g>")
		if i%fullRow == fullRow-1 {
			y += heights[i/fullRow] + panelGap
		}
	}
	fmt.Fprintln(out, "</svg>")
}

// panel is the place of one table's curves.
type panel struct {
	*grown
	top         float64 // of the plot
	first, last float64 // sizes, as powers of ten
	low, high   float64 // multiples, as powers of ten: whole ones
}

func newPanel(g *grown) *panel {
	p := &panel{grown: g, top: float64(titleHeight + labelHeight*len(g.columns) + plotGap), low: -1, high: 1}
	p.first, p.last = math.Log10(float64(g.lines[0].size)), math.Log10(float64(g.lines[len(g.lines)-1].size))
	for column := range g.columns {
		for _, l := range g.lines {
			if m := g.multiple(column, l); m > 0 {
				p.low, p.high = min(p.low, math.Floor(math.Log10(m))), max(p.high, math.Ceil(math.Log10(m)))
			}
		}
	}
	return p
}

// multiple is what the line's column costs, of what the first line's does.
func (g *grown) multiple(column int, l *sized) float64 {
	return l.took[column].median() / g.lines[0].took[column].median()
}

func (p *panel) x(size int) float64 {
	return plotLeft + (panelWidth-plotLeft-10)*(math.Log10(float64(size))-p.first)/(p.last-p.first)
}

func (p *panel) y(multiple float64) float64 {
	return p.top + plotHeight*(p.high-math.Log10(multiple))/(p.high-p.low)
}

func (p *panel) draw(out io.Writer) {
	fmt.Fprintf(out, `<text class="title" y="14">%s</text>`+"\n", html.EscapeString(p.title))
	for i, column := range p.columns {
		y := titleHeight + labelHeight*i
		fmt.Fprintf(out, `<path class="curve c%d" d="M0 %d h28"/><text x="36" y="%d">%s, from %s</text>`+"\n",
			i, y+3, y+7, html.EscapeString(column), short(p.lines[0].took[i].median()))
	}
	for power := p.low; power <= p.high; power++ {
		y, class := p.y(math.Pow(10, power)), "grid"
		if power == 0 {
			class = "one"
		}
		fmt.Fprintf(out, `<path class="%s" d="M%d %.1f H%d"/><text class="faint" x="%d" y="%.1f" text-anchor="end">× %v</text>`+"\n",
			class, plotLeft, y, panelWidth-10, plotLeft-6, y+4, math.Pow(10, power))
	}
	for _, l := range p.lines {
		fmt.Fprintf(out, `<text class="faint" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", p.x(l.size), p.top+plotHeight+18, brief(l.size))
	}
	for i := range p.columns {
		fmt.Fprintf(out, `<polyline class="curve c%d" points="`, i)
		for _, l := range p.lines {
			if m := p.multiple(i, l); m > 0 {
				fmt.Fprintf(out, "%.1f,%.1f ", p.x(l.size), p.y(m))
			}
		}
		fmt.Fprintln(out, `"/>`)
	}
}

// brief writes a size in few letters: 30M.
func brief(n int) string {
	switch {
	case n >= 1_000_000 && n%100_000 == 0:
		return fmt.Sprintf("%gM", float64(n)/1e6)
	case n >= 1000 && n%100 == 0:
		return fmt.Sprintf("%gk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
