package runner_test

import (
	"context"
	"testing"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/runner"
)

// A record is current if its job would be made alike now, from the image that is there;
// where none is known to be, from the record's own.
func TestCurrent(t *testing.T) {
	k := newKit(t)
	image := runner.Image{Ref: "x", Digest: "sha256:x", Env: []string{"PATH=/bin", "LANG=C"}, AddEnv: []string{"LANG=C"}}
	k.images.image = func(context.Context, *datasets.Instance) (runner.Image, error) { return image, nil }
	jobs := []runner.Job{job("name"), job("empty", withPatch(""))}
	made, _, err := k.run(t, nil, jobs...)
	if err != nil {
		t.Fatal(err)
	}
	other, bare := image, image
	other.Digest, bare.AddEnv = "sha256:y", nil
	pinned := runner.Image{Ref: "x:tag", Pinned: "x"}
	strict := k.options
	strict.Rules = grading.Strict
	for _, c := range []struct {
		name    string
		options runner.Options
		image   runner.Image
		there   bool
		want    [2]bool
	}{
		{"the same", k.options, image, true, [2]bool{true, true}},
		{"nothing known", k.options, runner.Image{}, false, [2]bool{true, true}},
		{"not there", k.options, runner.Image{Ref: "x"}, false, [2]bool{true, true}},
		{"not there, by digest", k.options, pinned, false, [2]bool{true, true}},
		{"not there, under another name", k.options, runner.Image{Ref: "y"}, false, [2]bool{false, true}},
		{"another image", k.options, other, true, [2]bool{false, true}},
		{"another environment", k.options, bare, true, [2]bool{false, true}},
		{"other rules", strict, image, true, [2]bool{}},
		{"other rules, not there", strict, runner.Image{Ref: "x"}, false, [2]bool{}},
	} {
		r := runner.New(c.options)
		for i := range jobs {
			if got := r.Current(jobs[i], &made[i], c.image, c.there); got != c.want[i] {
				t.Errorf("%s: %s is current: %v, want %v", c.name, jobs[i].Instance.ID, got, c.want[i])
			}
		}
	}
}
