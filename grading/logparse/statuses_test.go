package logparse

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStatusesAgainstMap compares the table with a plain map over random work.
func TestStatusesAgainstMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var got Statuses
	want := map[string]Status{}
	var order []string
	words := []Status{Passed, Failed, Skipped, Error, XFail, "ERROR:", "FAILEDx"}
	for range 20000 {
		name := fmt.Sprintf("%s%d", strings.Repeat("n", rnd.IntN(40)), rnd.IntN(500))
		if rnd.IntN(1000) == 0 {
			name = strings.Repeat("long", arenaSize)
		}
		status := words[rnd.IntN(len(words))]
		if _, known := want[name]; !known {
			order = append(order, name)
		}
		want[name] = status
		got.Set(name, status)
	}
	if diff := cmp.Diff(want, got.Map()); diff != "" {
		t.Error(diff)
	}
	for i, name := range order {
		if at, _ := got.At(i); at != name {
			t.Fatalf("name %d is %q, want %q", i, at, name)
		}
		if status, ok := got.Get(name); !ok || status != want[name] {
			t.Fatalf("%q is %q, want %q", name, status, want[name])
		}
	}
	if _, ok := got.Get("never set"); ok {
		t.Error("a name is found that was never set")
	}
}

func TestStatusesZeroValue(t *testing.T) {
	var s Statuses
	if _, ok := s.Get("a"); ok || s.Len() != 0 {
		t.Error("the zero value is not empty")
	}
	if raw, err := json.Marshal(s); err != nil || string(raw) != "{}" {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestStatusesJSONKeepsOrder(t *testing.T) {
	s := StatusesOf("z", "PASSED", `q"\`+"\n", "FAILED", "a", "ERROR:", "z", "SKIPPED")
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"z":"SKIPPED","q\"\\\n":"FAILED","a":"ERROR:"}`; string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
}
