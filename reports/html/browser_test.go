package html

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// browser is a Chromium, and all it says and asks for.
type browser struct {
	ctx      context.Context
	mu       sync.Mutex
	said     []string // on the console, errors and warnings
	requests []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here; Debian's package is chromium")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(2*time.Minute), chromedp.Flag("disable-gpu", true))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &browser{ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	_, networkErr := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, runtimeErr := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	_, logErr := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	if err := errors.Join(networkErr, runtimeErr, logErr); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.said = append(b.said, fmt.Sprint(e.Type))
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		b.said = append(b.said, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) open(t *testing.T, path, hash string) {
	t.Helper()
	target := (&url.URL{Scheme: "file", Path: path}).String()
	b.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(target+hash))
}

// eval is the value of an expression in the page, as text.
func (b *browser) eval(t *testing.T, expression string) string {
	t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// wait waits until an expression is true. It asks from here: the policy of the page
// forbids what chromedp would put into it for that.
func (b *browser) wait(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); b.eval(t, expression) != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s; the page shows %s", expression, b.eval(t, "document.body.innerText"))
		}
	}
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, 2*time.Minute)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	b.do(t, chromedp.Click(chromedp.CSS(selector)))
}

// quiet checks that the page said nothing and asked for nothing but files of dir.
func (b *browser) quiet(t *testing.T, dir string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("the console says %q", b.said)
	}
	inside := (&url.URL{Scheme: "file", Path: dir}).String() + "/"
	for _, r := range b.requests {
		if !strings.HasPrefix(r, inside) && r != "about:blank" && r != "data:," {
			t.Errorf("asked for %s", r)
		}
	}
	if len(b.requests) == 0 {
		t.Error("no request was seen; the test looks at nothing")
	}
	b.said, b.requests = nil, nil
}

const (
	firstIDs = `[...document.querySelectorAll("#body tr")].map(r => r.querySelector("th").innerText.trim()).join(" ")`
	status   = `document.getElementById("status").innerText`
	choose   = `(id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event("input", {bubbles: true})); }`
)

func TestInBrowser(t *testing.T) {
	b := newBrowser(t)
	t.Run("one", func(t *testing.T) { testOne(t, b) })
	t.Run("many", func(t *testing.T) { testMany(t, b) })
	t.Run("matrix", func(t *testing.T) { testMatrix(t, b) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, b) })
}

// testOne sorts, searches, filters, turns pages and opens instances.
func testOne(t *testing.T, b *browser) {
	dir := t.TempDir()
	attempts := []attempt{
		{id: "o__a-10", outcome: grading.Resolved, passed: []string{"t.py::one"}, patch: smallPatch, log: "begin\nPASSED t.py::one\nend\n", flagged: []string{"look here"}},
		{id: "o__a-2", outcome: grading.Unresolved, reason: "broke it", passed: []string{"t.py::one"}, failed: []string{"t.py::two"}, patch: smallPatch,
			log: strings.Repeat("noise\n", 9000) + "FAILED t.py::two - assert\nFAILED t.py::two_more\n" + strings.Repeat("noise\n", 9000)},
		{id: "p__b-1", outcome: grading.ApplyFailed, reason: "no command could apply it"},
	}
	for n := range 150 {
		attempts = append(attempts, attempt{id: fmt.Sprintf("q__c-%d", n), outcome: grading.TimedOut})
	}
	path := filepath.Join(dir, "report.html")
	write(t, path, pageOf(newSet(t, dir, "m", attempts...)))
	b.open(t, path, "")

	if got := b.eval(t, status); got != "153 of 153 instances, page 1 of 2" {
		t.Errorf("status %q", got)
	}
	if got := b.eval(t, firstIDs); !strings.HasPrefix(got, "o__a-2 o__a-10 p__b-1 q__c-0 q__c-1 q__c-2 ") {
		t.Errorf("rows %.60q: want ids in order, numbers as numbers", got)
	}
	b.click(t, "#next")
	if got := b.eval(t, firstIDs); !strings.HasPrefix(got, "q__c-97 ") || !strings.HasSuffix(got, " q__c-149") {
		t.Errorf("second page %.60q", got)
	}
	// By the keyboard: the button has the focus and Enter sorts.
	b.do(t, chromedp.Focus(chromedp.CSS(`[data-sort=time]`)), chromedp.KeyEvent("\r"), chromedp.KeyEvent("\r"))
	if got := b.eval(t, firstIDs); !strings.HasPrefix(got, "q__c-149 q__c-148 ") {
		t.Errorf("by time, down: %.60q", got)
	}
	if got := b.eval(t, `[...document.querySelectorAll("th[aria-sort]")].map(h => h.innerText.trim() + "=" + h.getAttribute("aria-sort")).join(" ")`); !strings.Contains(got, "Instance=none") || !strings.Contains(got, "Time=descending") {
		t.Errorf("aria-sort %q", got)
	}
	b.do(t, chromedp.SendKeys(chromedp.CSS("#search"), "broke O__A"))
	if got := b.eval(t, firstIDs+"+'; '+"+status); got != "o__a-2; 1 of 153 instances" {
		t.Errorf("search: %q", got)
	}
	b.click(t, `button[type=reset]`)
	b.wait(t, status+`.startsWith("153")`)
	for filter, want := range map[string]string{
		`("outcome", "apply_failed")`: "p__b-1", `("repo", "o/a")`: "o__a-10 o__a-2",
	} {
		b.eval(t, "("+choose+")"+filter)
		got := strings.Fields(b.eval(t, firstIDs))
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("filter %s: %q, want %q", filter, got, want)
		}
		b.eval(t, `(`+choose+`)(`+strings.Split(strings.Trim(filter, "()"), ",")[0]+`, "")`)
	}
	b.click(t, "#flagged")
	if got := b.eval(t, firstIDs); got != "o__a-10" {
		t.Errorf("flagged: %q", got)
	}
	b.click(t, `#body a`)
	b.wait(t, `document.querySelector("#instance .code ins") !== null`)
	text := b.eval(t, `document.getElementById("instance").innerText`)
	for _, want := range []string{"o__a-10", "resolved", "look here", "FAIL_TO_PASS: 1 of 1 passed", "pkg/a.py (+1 −1)", "pkg/b.py (+1 −0)", "peak memory", "2 % of 4GiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("the instance lacks %q:\n%s", want, text)
		}
	}
	if got := b.eval(t, `document.activeElement.innerText + " " + [...document.querySelectorAll("#instance mark")].map(m => m.innerText)`); got != "o__a-10 2PASSED t.py::one" {
		t.Errorf("focus and marked lines %q", got)
	}
	b.open(t, path, "#instance=o__a-2")
	b.wait(t, `document.querySelector("#instance mark") !== null`)
	if got := b.eval(t, `[...document.querySelectorAll("#instance mark")].map(m => m.innerText).join()`); got != "9001FAILED t.py::two - assert" {
		t.Errorf("marked %q; a longer name is another test", got)
	}
	if got := b.eval(t, `[...document.querySelectorAll("#instance .gap")].map(g => g.innerText).join()`); got != "8952 lines left out,8873 lines left out" {
		t.Errorf("gaps %q", got)
	}
	b.click(t, `#instance a[href="#instances"]`)
	b.wait(t, `!document.getElementById("all").hidden`)
	b.quiet(t, dir)
}

// testMany compares several side by side, with the details in files beside the page.
func testMany(t *testing.T, b *browser) {
	dir := t.TempDir()
	var one, two []attempt
	for n := range 40 {
		id := fmt.Sprintf("o__a-%d", n)
		one = append(one, attempt{id: id, outcome: grading.Resolved, passed: []string{"t::x"}, patch: smallPatch, log: "PASSED t::x\n"})
		two = append(two, attempt{id: id, outcome: grading.Resolved, passed: []string{"t::x"}, patch: smallPatch, log: "PASSED t::x\n"})
	}
	two[39] = attempt{id: "o__a-39", outcome: grading.Unresolved, failed: []string{"t::x"}, log: "FAILED t::x\n"}
	p := pageOf(newSet(t, dir, "first", one...), newSet(t, dir, "second", two...))
	p.Budget = 1
	path := filepath.Join(dir, "a b#c.html") // a name that has to be spelt in a URL
	if _, out := write(t, path, p); out.Folder != filepath.Join(dir, "a b#c_files") {
		t.Fatalf("details in %q, want files", out.Folder)
	}
	b.open(t, path, "")
	b.click(t, "#differing")
	if got := b.eval(t, firstIDs); got != "o__a-39" {
		t.Errorf("differing: %q", got)
	}
	b.click(t, `#body a`)
	b.wait(t, `document.querySelectorAll("#instance .side mark").length === 2`)
	if got := b.eval(t, `[...document.querySelectorAll("#instance .side")].map(s => s.querySelector("h3").innerText + ": " + s.querySelector(".badge").innerText).join()`); got != "first: ✓ resolved,second: ✗ unresolved" {
		t.Errorf("sides %q", got)
	}
	b.quiet(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, "a b#c_files")); err != nil {
		t.Fatal(err)
	}
	b.open(t, path, "#instance=o__a-1")
	b.wait(t, `document.querySelector("#instance [role=alert]") !== null`)
	if got := b.eval(t, `document.querySelector("#instance [role=alert]").innerText`); !strings.Contains(got, "belongs beside this page") {
		t.Errorf("without its files the page says %q", got)
	}
	b.mu.Lock()
	b.said, b.requests = nil, nil // Chromium says that a file is missing
	b.mu.Unlock()
}

// testMatrix sorts by a system's column and says of an instance who resolved it, by
// name. Nothing can be opened: the sets have no files.
func testMatrix(t *testing.T, b *browser) {
	dir := t.TempDir()
	var sets []*results.Set
	for n := range wordySystems + 1 {
		s := &results.Set{Name: fmt.Sprintf("system %d", n), Kind: results.KindSummary}
		for k := range 3 {
			outcome := grading.Unresolved
			if k == n%3 {
				outcome = grading.Resolved
			}
			s.Items = append(s.Items, results.Item{ID: fmt.Sprintf("o%d__a-1", k), Outcome: outcome, Submitted: true})
		}
		sets = append(sets, s)
	}
	path := filepath.Join(dir, "board.html")
	write(t, path, pageOf(sets...))
	b.open(t, path, "")
	b.click(t, `[data-sort=s2]`)
	if got := b.eval(t, firstIDs); got != "o2__a-1 o0__a-1 o1__a-1" {
		t.Errorf("by the third system: %q", got)
	}
	b.eval(t, `(`+choose+`)("outcome", "resolved")`)
	b.eval(t, `(`+choose+`)("system", "1")`)
	if got := b.eval(t, firstIDs); got != "o1__a-1" {
		t.Errorf("resolved by the second system: %q", got)
	}
	b.click(t, `#body a`)
	b.wait(t, `document.querySelector("#instance .side") !== null`)
	text := b.eval(t, `document.getElementById("instance").innerText`)
	for _, want := range []string{"system 1, system 4", "system 0, system 2, system 3", "Resolved by 2 of 5.", "say no more"} {
		if !strings.Contains(text, want) {
			t.Errorf("the instance lacks %q: %s", want, text)
		}
	}
	if got := b.eval(t, `document.querySelectorAll(".heat tbody td").length`); got != "15" {
		t.Errorf("%s cells in the heat map, want 15", got)
	}
	b.quiet(t, dir)
}

// testHostile: whatever names, reasons, tests, patches and logs say, nothing of it
// runs or becomes markup.
func testHostile(t *testing.T, b *browser) {
	dir := t.TempDir()
	var attempts []attempt
	for _, text := range hostile {
		attempts = append(attempts, attempt{id: text, outcome: grading.Outcome(text), reason: text, passed: []string{text + "1"}, failed: []string{text},
			patch: "diff --git a/" + text + " b/" + text + "\n+" + text + "\n", log: text + "\n", flagged: []string{text}})
	}
	for _, many := range []bool{false, true} {
		p := pageOf(newSet(t, dir, hostile[0], attempts...))
		if many {
			p = pageOf(newSet(t, dir, hostile[0], attempts...), newSet(t, dir, hostile[1], attempts...))
		}
		p.Title, p.Lead, p.Version = hostile[1], hostile, hostile[0]
		path := filepath.Join(dir, fmt.Sprintf("%v.html", many))
		write(t, path, p)
		b.open(t, path, "")
		if got := b.eval(t, `document.querySelectorAll("#body tr").length`); got != fmt.Sprint(len(hostile)) {
			t.Errorf("%s rows, want %d", got, len(hostile))
		}
		for n := range hostile {
			b.eval(t, fmt.Sprintf(`location.hash = [...document.querySelectorAll("#body a")][%d].getAttribute("href")`, n))
			b.wait(t, `document.querySelector("#instance .code") !== null`)
			if got := b.eval(t, `document.querySelectorAll("img, #instance svg, #instance script, [onload], [onerror]").length + " " + window.harmed`); got != "0 undefined" {
				t.Errorf("elements that came from text, harm done: %s", got)
			}
			if text := b.eval(t, `document.body.innerText`); strings.ContainsAny(text, "\u202e\x00\x1b") {
				t.Error("what cannot be seen is shown as it is")
			}
			b.eval(t, `location.hash = ""`)
			b.wait(t, `document.getElementById("instance").hidden`)
		}
		b.quiet(t, dir)
	}
}
