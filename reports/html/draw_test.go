package html

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
	"github.com/evalrun/evalrun/reports/analysis"
	"github.com/evalrun/evalrun/reports/results"
)

// drawn are the pictures of a page as they are in its file.
func drawn(t testing.TB, p Page) []string {
	t.Helper()
	p.Summary = true
	page, _ := write(t, filepath.Join(t.TempDir(), "r.html"), p)
	return regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(page, -1)
}

// element is one of a picture: its name, attributes and text.
type element struct {
	name, text string
	attr       map[string]string
}

// elements checks on the way that they have nothing but what the page's policy and
// style are made for.
func elements(t testing.TB, svg string) []element {
	t.Helper()
	allowed := map[string]string{"svg": "viewBox role aria-label", "g": "transform", "path": "class fill stroke-width d", "title": "", "text": "class x y transform text-anchor"}
	var out []element
	in := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%v in %.200s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			names, ok := allowed[e.Name.Local]
			if !ok {
				t.Fatalf("element %s", e.Name.Local)
			}
			made := element{name: e.Name.Local, attr: map[string]string{}}
			for _, a := range e.Attr {
				if !slices.Contains(strings.Fields(names), a.Name.Local) {
					t.Errorf("attribute %s of %s", a.Name.Local, e.Name.Local)
				}
				made.attr[a.Name.Local] = a.Value
			}
			out = append(out, made)
		case xml.CharData:
			if n := len(out) - 1; n >= 0 {
				out[n].text += strings.TrimSpace(string(e))
			}
		}
	}
}

// said is the texts of a picture, and what its marks say to whom points at them.
func said(all []element) (texts, titles []string) {
	for _, e := range all {
		switch {
		case e.name == "text":
			texts = append(texts, e.text)
		case e.name == "title" && !slices.Contains(titles, e.text):
			titles = append(titles, e.text)
		}
	}
	return texts, titles
}

func setOf(name string, outcomes ...grading.Outcome) *results.Set {
	s := &results.Set{Name: name}
	for n, o := range outcomes {
		s.Items = append(s.Items, results.Item{ID: fmt.Sprintf("o__%c-%d", 'a'+n%2, n), Outcome: o, Submitted: true})
	}
	return s
}

// TestPictures: each picture says its numbers in texts, at its marks and read aloud.
func TestPictures(t *testing.T) {
	one := setOf("first", grading.Resolved, grading.Resolved, grading.Unresolved, grading.TimedOut)
	two := setOf("second", grading.Resolved, grading.Unresolved, grading.Unresolved, grading.Unresolved)
	pictures := drawn(t, pageOf(one, two))
	want := []struct {
		label         string
		texts, titles []string
		classes       string
	}{
		{"Resolved of all instances, with 95 % intervals (Wilson); first 2 of 4, 50.0 %, 15.0 to 85.0; second 1 of 4, 25.0 %, 4.6 to 69.9",
			[]string{"0 %", "25 %", "50 %", "75 %", "100 %", "first", "second", "50.0 %", "25.0 %"},
			[]string{"2 of 4, 50.0 %, 15.0 to 85.0", "1 of 4, 25.0 %, 4.6 to 69.9"}, "grid s0 w0"},
		{"How the attempts ended; first, resolved: 2 of 4, unresolved: 1 of 4, timed_out: 1 of 4; second, resolved: 1 of 4, unresolved: 3 of 4",
			[]string{"0 %", "25 %", "50 %", "75 %", "100 %", "first", "second"},
			[]string{"resolved: 2 of 4", "unresolved: 1 of 4", "timed_out: 1 of 4", "resolved: 1 of 4", "unresolved: 3 of 4"}, "bad bad f2 edge good grid"},
		{"Resolved by repository, with 95 % intervals (Wilson, each for itself); most instances first; o/a 1 of 2, 9 to 91 % 1 of 2, 9 to 91 %; o/b 1 of 2, 9 to 91 % 0 of 2, 0 to 66 %",
			[]string{"0 %", "25 %", "50 %", "75 %", "100 %", "o/a", "o/b", "n = 2", "n = 2"},
			[]string{"1 of 2, 9 to 91 %", "0 of 2, 0 to 66 %"}, "grid s0 s1 w0 w1"},
	}
	if len(pictures) != len(want) {
		t.Fatalf("%d pictures, want %d", len(pictures), len(want))
	}
	for n, w := range want {
		all := elements(t, pictures[n])
		if got := all[0].attr; got["role"] != "img" || got["aria-label"] != w.label || !strings.HasPrefix(got["viewBox"], "0 0 720 ") {
			t.Errorf("picture %v\nwant %s", got, w.label)
		}
		texts, titles := said(all)
		if d := cmp.Diff(w.texts, texts); d != "" {
			t.Errorf("texts (-want +got)\n%s", d)
		}
		if d := cmp.Diff(w.titles, titles); d != "" {
			t.Errorf("titles (-want +got)\n%s", d)
		}
		var classes []string
		for _, e := range all {
			if e.name == "path" {
				classes = append(classes, e.attr["class"])
			}
		}
		slices.Sort(classes)
		if got := strings.Join(slices.Compact(classes), " "); got != w.classes {
			t.Errorf("classes %q, want %q", got, w.classes)
		}
	}
	if d := cmp.Diff(pictures, drawn(t, pageOf(one, two))); d != "" {
		t.Errorf("the same results make other pictures\n%s", d)
	}
}

// TestPlaces: marks are where the scale says: a rate of one half below 50 %, its
// interval on both sides, names before the scale begins.
func TestPlaces(t *testing.T) {
	c := newChart("caption", 2, 1, 1)
	c.name(0, "name")
	c.interval(0, 0, 0, .5, analysis.Interval{.25, .75}, "words")
	c.bar(1, c.bar(1, nil, .25, "good", ""), .5, "bad", "")
	p, err := c.draw()
	if err != nil {
		t.Fatal(err)
	}
	scale := map[string]string{}
	for _, m := range p.Marks {
		if m.Kind == "text" {
			scale[m.Text] = m.X
		}
	}
	var got []string
	for _, m := range p.Marks {
		if m.Kind == "path" && (m.Class == "w0" || m.Class == "good" || m.Class == "bad") {
			var ends []string
			for _, part := range strings.FieldsFunc(m.Path, func(r rune) bool { return strings.ContainsRune("MLZ", r) }) {
				x, _, _ := strings.Cut(part, ",")
				for label, at := range scale {
					if x == at && label != "name" {
						ends = append(ends, label)
					}
				}
			}
			slices.Sort(ends)
			got = append(got, m.Class+" "+strings.Join(slices.Compact(ends), " to "))
		}
	}
	want := []string{"w0 25 % to 75 %", "w0 25 %", "w0 75 %", "good 0 % to 25 %", "bad 25 % to 75 %"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("places (-want +got)\n%s", d)
	}
}

// TestNothingToDraw: sets of nothing, of one row and of many are drawn, or left out.
func TestNothingToDraw(t *testing.T) {
	for _, n := range []int{0, 1, 300} {
		for _, svg := range drawn(t, pageOf(setOf("m", slices.Repeat([]grading.Outcome{grading.Resolved}, n)...))) {
			if elements(t, svg); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("of %d: %s", n, svg)
			}
		}
	}
	if _, err := newChart("none", 0, 1, 1).draw(); err != nil {
		t.Error(err)
	}
}

// FuzzPictureNames: whatever a system, an outcome or an instance is called, it is a
// text of the picture, of limited length, and never markup.
func FuzzPictureNames(f *testing.F) {
	for _, name := range append(slices.Clone(hostile), "", " ", `"'&<>`, "\x1b[31mred\x1b[0m", strings.Repeat("long", 999), "שלום \u202eעולם", "中文名字", "\xff\xfe\ufffe\uffff", "a\u0301\u200d", "\n", "#000001;fill:#000002") {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s := setOf(name, grading.Resolved, grading.Outcome(name))
		s.Items[0].ID, s.Items[1].ID = name+"__a-1", "o__"+name+"-2"
		for n, svg := range drawn(t, pageOf(s, s)) {
			texts, _ := said(elements(t, svg))
			for _, text := range texts {
				if reports.DisplayWidth(text) > 40 {
					t.Errorf("text of %d columns", reports.DisplayWidth(text))
				}
			}
			want := strings.TrimSpace(shortName(name))
			if n < 2 && want != "" && !slices.Contains(texts, want) {
				t.Errorf("picture %d lacks %q: %q", n, want, texts)
			}
		}
	})
}

// TestUnknownMarks: what vgsvg is not known to write is an error, not markup.
func TestUnknownMarks(t *testing.T) {
	for _, svg := range []string{
		`<svg><script/></svg>`, `<svg><image/></svg>`, `<svg><path d="M0,0"/></svg>`, `<svg><path style="fill:#000002"/></svg>`,
		`<svg><path style="fill:red"/></svg>`, `<svg><text style="fill:#000000">a</text></svg>`, `<svg><g>`,
	} {
		if m, err := marks(bytes.NewReader([]byte(svg)), []ink{{Class: "a"}}); err == nil {
			t.Errorf("%s: marks %v", svg, m)
		}
	}
}

// TestInkColors: vgsvg writes the number of each ink without rounding it.
func TestInkColors(t *testing.T) {
	for n := inkColor(1); n < 1<<24; n = n*3/2 + 1 {
		r, g, b, a := n.RGBA()
		scale := 255 / float64(a)
		if got := inkColor(float64(r)*scale)<<16 | inkColor(float64(g)*scale)<<8 | inkColor(float64(b)*scale); got != n {
			t.Fatalf("ink %06x is written as %06x", n, got)
		}
	}
}
