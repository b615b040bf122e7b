package html

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
)

// plot is a drawing, with words for those who do not see it. Colours are classes of
// the page's style.
type plot struct {
	Caption, Label string
	Keys           []key
	Width, Height  float64
	Tall           bool // wants the whole width of the page
	Marks          []mark
}

type key struct{ Class, Text string }

// mark is a piece of SVG for the template, which escapes its texts: a path, a text,
// or the begin or the end of a group.
type mark struct {
	Kind string
	ink
	Transform, Text string
	Path            string
	Stroke          string // its width; "" is a path that is filled
	X, Y            string
}

// ink is what gonum knows as a colour: a colour of the page, what the mark says to
// whom points at it, and for texts which end of them is at their place. The page's
// font is not known here, so texts are aligned where they are shown.
type ink struct{ Class, Title, Anchor string }

// inkColor is the number of an ink, from 1. vgsvg writes it as #RRGGBB.
type inkColor uint32

// RGBA has half a step more than the number, against rounding down.
func (n inkColor) RGBA() (r, g, b, a uint32) {
	part := func(v inkColor) uint32 { return uint32(v&0xff)*0x101 + 0x80 }
	return part(n >> 16), part(n >> 8), part(n), math.MaxUint16
}

const (
	plotWidth  = 720.0
	lineStep   = 24.0
	axisHeight = 30.0
	fontSize   = 13
	charWidth  = 7.9 // of a wide font of that size
)

// texts measures with room for any font, and leaves aligning to the browser.
type texts struct{ text.Plain }

// Box is the size of a text.
func (t texts) Box(txt string, fnt font.Font) (width, height, depth vg.Length) {
	_, height, depth = t.Plain.Box("", fnt)
	return vg.Length(charWidth * float64(reports.DisplayWidth(txt))), height, depth
}

// Draw writes a text at its place; see ink.
func (t texts) Draw(c vg.Canvas, txt string, sty text.Style, pt vg.Point) {
	sty.XAlign = text.XLeft
	pt.Y-- // the middle of digits, not of the line
	t.Plain.Draw(c, txt, sty, pt)
}

// chart has rows with names at the left and a scale of per cent below.
type chart struct {
	plot
	gonum *gonum.Plot
	inks  []ink
	names gonum.ConstantTicks
	rows  int
	step  float64 // from row to row
	full  float64 // per cent at the right edge, 1 is 100
}

func newChart(caption string, rows, series int, full float64) *chart {
	c := &chart{gonum: gonum.New(), rows: rows, full: full, step: lineStep + 10*float64(series-1)}
	c.Caption, c.Label, c.Tall = caption, caption, rows > 14
	c.Width, c.Height = plotWidth, c.step*float64(rows)+axisHeight
	c.gonum.BackgroundColor = nil
	for _, axis := range []*gonum.Axis{&c.gonum.X, &c.gonum.Y} {
		axis.Width, axis.Tick.Width, axis.Padding = 0, 0, 0
	}
	c.gonum.X.Padding = 4
	c.gonum.X.Tick.Label = c.style(ink{Class: "soft", Anchor: "middle"}, text.XCenter, text.YTop)
	c.gonum.Y.Tick.Label = c.style(ink{Anchor: "end"}, text.XRight, text.YCenter)
	c.gonum.Y.Label.TextStyle = c.gonum.Y.Tick.Label
	var scale gonum.ConstantTicks
	for _, at := range []float64{0, .25, .5, .75, 1} {
		scale = append(scale, gonum.Tick{Value: at * full, Label: fmt.Sprintf("%g %%", math.Round(1000*at*full)/10)})
	}
	c.gonum.X.Tick.Marker = scale
	c.gonum.Add(&plotter.Grid{Vertical: draw.LineStyle{Color: c.color(ink{Class: "grid"}), Width: 1}})
	return c
}

func (c *chart) color(i ink) color.Color {
	c.inks = append(c.inks, i)
	return inkColor(len(c.inks))
}

func (c *chart) style(i ink, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: c.color(i), Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: fontSize},
		XAlign: x, YAlign: y, Handler: texts{text.Plain{Fonts: font.DefaultCache}},
	}
}

// y is where a row is, shifted down by points.
func (c *chart) y(row int, shift float64) float64 { return -float64(row) - shift/c.step }

func (c *chart) name(row int, text string) {
	c.names = append(c.names, gonum.Tick{Value: c.y(row, 0), Label: shortName(text)})
}

// shapes are of the marks of each system: no meaning is in a colour alone.
var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamond{}}

// diamond is a box on its corner, which gonum has not.
type diamond struct{}

// DrawGlyph draws it.
func (diamond) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 1.2
	c.FillPolygon(sty.Color, []vg.Point{{X: pt.X + r, Y: pt.Y}, {X: pt.X, Y: pt.Y + r}, {X: pt.X - r, Y: pt.Y}, {X: pt.X, Y: pt.Y - r}})
}

// interval draws a rate with its interval, shifted where several share a row.
func (c *chart) interval(row, series int, shift, rate float64, in analysis.Interval, text string) {
	at := plotter.XYs{{X: rate, Y: c.y(row, shift)}}
	series %= len(shapes)
	c.gonum.Add(
		&plotter.XErrorBars{
			XYs: at, XErrors: plotter.XErrors{{Low: rate - in[0], High: in[1] - rate}}, CapWidth: 7,
			LineStyle: draw.LineStyle{Color: c.color(ink{Class: fmt.Sprintf("w%d", series), Title: text}), Width: 1.5},
		},
		&plotter.Scatter{XYs: at, GlyphStyle: draw.GlyphStyle{Color: c.color(ink{Class: fmt.Sprintf("s%d", series), Title: text}), Radius: 4.5, Shape: shapes[series]}},
	)
}

// note writes beside a place in a row.
func (c *chart) note(row int, at float64, class, words string) {
	c.gonum.Add(&plotter.Labels{
		XYs: plotter.XYs{{X: at, Y: c.y(row, 0)}}, Labels: []string{words},
		TextStyle: []text.Style{c.style(ink{Class: class, Anchor: "start"}, text.XLeft, text.YCenter)},
		Offset:    vg.Point{X: 8, Y: c.gonum.Y.Tick.Label.FontExtents().Descent},
	})
}

// bar puts a piece after another; nil is none.
func (c *chart) bar(row int, after *plotter.BarChart, share float64, class, text string) *plotter.BarChart {
	b := &plotter.BarChart{
		Values: plotter.Values{share}, Width: 16, Horizontal: true, XMin: c.y(row, 0),
		Color: c.color(ink{Class: class, Title: text}), LineStyle: draw.LineStyle{Color: c.color(ink{Class: "edge"}), Width: 1},
	}
	if after != nil {
		b.StackOn(after)
	}
	c.gonum.Add(b)
	return b
}

// draw makes the marks of it.
func (c *chart) draw() (plot, error) {
	c.gonum.Y.Tick.Marker = c.names
	c.gonum.X.Min, c.gonum.X.Max = 0, c.full
	c.gonum.Y.Min, c.gonum.Y.Max = c.y(c.rows-1, c.step/2), c.y(0, -c.step/2)
	canvas := vgsvg.New(vg.Length(c.Width), vg.Length(c.Height))
	c.gonum.Draw(draw.New(canvas))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	if err == nil {
		c.Marks, err = marks(&b, c.inks)
	}
	if err != nil {
		return plot{}, fmt.Errorf("draw %q: %w", c.Caption, err)
	}
	return c.plot, nil
}

// marks reads what vgsvg has written, and keeps of it what a page may have: no sizes,
// no fonts, no style attributes, which its policy forbids, and inks for colours.
func marks(svg io.Reader, inks []ink) ([]mark, error) {
	var out []mark
	in := xml.NewDecoder(svg)
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "svg" {
				continue // the template has its own
			}
			m, err := newMark(e, inks)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		case xml.CharData:
			if n := len(out) - 1; n >= 0 && out[n].Kind == "text" {
				out[n].Text += string(e)
			}
		case xml.EndElement:
			if kind := e.Name.Local; kind != "svg" {
				out = append(out, mark{Kind: "/" + kind})
			}
		}
	}
}

func newMark(e xml.StartElement, inks []ink) (mark, error) {
	m := mark{Kind: e.Name.Local}
	if m.Kind != "g" && m.Kind != "path" && m.Kind != "text" {
		return m, fmt.Errorf("element %s is not known", m.Kind)
	}
	style := map[string]string{}
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "transform":
			m.Transform = a.Value
		case "d":
			m.Path = a.Value
		case "x":
			m.X = a.Value
		case "y":
			m.Y = a.Value
		case "style":
			for part := range strings.SplitSeq(a.Value, ";") {
				name, value, _ := strings.Cut(part, ":")
				style[name] = value
			}
		}
	}
	if m.Kind == "g" {
		return m, nil
	}
	color := style["fill"]
	if line, ok := style["stroke"]; ok {
		color, m.Stroke = line, "1"
		if width, ok := style["stroke-width"]; ok {
			m.Stroke = width
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 24)
	if err != nil || n < 1 || n > uint64(len(inks)) {
		return m, fmt.Errorf("%s has colour %q, which is none of %d inks", m.Kind, color, len(inks))
	}
	m.ink = inks[n-1]
	return m, nil
}
