package datasets

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tenInstances() []Instance {
	var out []Instance
	for i := range 10 {
		repo := "own/calc"
		if i >= 6 {
			repo = "own/text"
		}
		out = append(out, Instance{ID: fmt.Sprintf("%s-%d", strings.ReplaceAll(repo, "/", "__"), i), Repo: repo})
	}
	return out
}

// numbers are the last digits of the selected ids.
func numbers(instances []Instance) string {
	var b strings.Builder
	for _, i := range instances {
		b.WriteByte(i.ID[len(i.ID)-1])
	}
	return b.String()
}

func TestSelection(t *testing.T) {
	dir := t.TempDir()
	ids := write(t, filepath.Join(dir, "ids.txt"), []byte("\ufeff# mine\nown__calc-4\r\n\nown__text-9 # why, not\nown__calc-0, own__calc-1\n"))
	list := write(t, filepath.Join(dir, "ids.json"), []byte("[\n \"own__calc-4\", \"own__text-*\"]"))
	for _, tc := range []struct {
		name string
		sel  Selection
		want string
	}{
		{"everything", Selection{}, "0123456789"},
		{"ids in dataset order", Selection{IDs: []string{"own__text-7", "own__calc-1"}}, "17"},
		{"commas and spaces", Selection{IDs: []string{"own__text-7, own__calc-1,", "own__calc-1"}}, "17"},
		{"globs", Selection{IDs: []string{"*-[13]", "own__t*"}}, "136789"},
		{"file", Selection{IDsFile: ids}, "0149"},
		{"file of JSON", Selection{IDsFile: list}, "46789"},
		{"ids and file", Selection{IDs: []string{"own__calc-2"}, IDsFile: ids}, "01249"},
		{"repository", Selection{Repos: []string{"own/text"}}, "6789"},
		{"repository glob", Selection{Repos: []string{"*/c*"}}, "012345"},
		{"repository and ids", Selection{Repos: []string{"own/text"}, IDs: []string{"*-[4567]"}}, "67"},
		{"slice", Selection{Slice: "2:5"}, "234"},
		{"slice after ids", Selection{IDs: []string{"*-[1357]"}, Slice: "1:3"}, "35"},
		{"all by sample", Selection{Sample: 10}, "0123456789"},
		{"more than there are", Selection{Sample: 99}, "0123456789"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.sel.Apply(tenInstances())
			if err != nil {
				t.Fatal(err)
			}
			if numbers(got) != tc.want {
				t.Errorf("got %s, want %s", numbers(got), tc.want)
			}
		})
	}
}

func TestSelectionErrors(t *testing.T) {
	dir := t.TempDir()
	ids := write(t, filepath.Join(dir, "ids.txt"), []byte("own__calc-4\nown_calc-1\n"))
	empty := write(t, filepath.Join(dir, "empty.txt"), []byte("# nothing\n"))
	for _, tc := range []struct {
		sel  Selection
		want []string
	}{
		{Selection{IDs: []string{"own_calc-1,zzz", "own__calc-2", "no*"}}, []string{
			`unknown instance id "own_calc-1" (did you mean own__calc-1`, `unknown instance id "zzz" (it is not in this dataset`, `no instance id matches "no*"`}},
		{Selection{IDsFile: ids}, []string{ids + `:2: unknown instance id "own_calc-1"`}},
		{Selection{IDsFile: empty}, []string{"holds no instance ids"}},
		{Selection{IDsFile: filepath.Join(dir, "absent")}, []string{"absent: no such file"}},
		{Selection{IDs: []string{"a[b"}}, []string{`bad pattern "a[b"`}},
		{Selection{Repos: []string{"own/cacl"}}, []string{`unknown repository "own/cacl" (did you mean own/calc?)`}},
		{Selection{Slice: "20:"}, []string{"leaves none of the 10"}},
		{Selection{Sample: -1}, []string{"sample -1"}},
		{Selection{Slice: "5"}, []string{"one or two colons"}},
		{Selection{Slice: "1:2:3:4"}, []string{"one or two colons"}},
		{Selection{Slice: "a:"}, []string{`"a" is no number`}},
		{Selection{Slice: "::0"}, []string{"the step must be 1 or more"}},
		{Selection{Slice: "::-1"}, []string{"the step must be 1 or more"}},
		{Selection{Slice: "99999999999999999999:"}, []string{"is no number"}},
	} {
		got, err := tc.sel.Apply(tenInstances())
		if err == nil {
			t.Errorf("%+v: no error, %d instances", tc.sel, len(got))
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %q lacks %q", tc.sel, err, want)
			}
		}
	}
}

// Slices cut as Python's do.
func TestSlice(t *testing.T) {
	for text, want := range map[string]string{
		":": "0123456789", "10:20": "", ":5": "01234", "-5:": "56789", "::2": "02468", "1::3": "147", ":-8": "01",
		"-3:-1": "78", "5:2": "", "-99:2": "01", "8:99": "89", " 1 : 3 ": "12", "::99": "0", "::9223372036854775807": "0",
		"-9223372036854775808:1": "0", "3:9:2": "357",
	} {
		s, err := parseSlice(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var b strings.Builder
		for _, i := range s.apply([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			fmt.Fprint(&b, i)
		}
		if b.String() != want {
			t.Errorf("%q cuts %q, want %q", text, b.String(), want)
		}
	}
}

// The draws are part of the contract: a seed in a paper must draw the same
// instances years later.
func TestSampleIsFixed(t *testing.T) {
	draw := func(seed int64) string {
		got, err := Selection{Sample: 4, Seed: seed}.Apply(tenInstances())
		if err != nil {
			t.Fatal(err)
		}
		return numbers(got)
	}
	got := []string{draw(0), draw(1), draw(-7), draw(1 << 40)}
	if diff := cmp.Diff([]string{"1458", "1369", "0257", "0169"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
