package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/images"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/internal/sandbox"
	"github.com/evalrun/evalrun/internal/schedule"
	"github.com/evalrun/evalrun/reports"
)

// fakePlanner pulls what has an image and builds the rest, on two environments.
type fakePlanner struct{}

func (fakePlanner) Prebuilt(inst *datasets.Instance) string { return inst.Image }

func (fakePlanner) Spec(_ context.Context, inst *datasets.Instance) (images.InstanceSpec, error) {
	return images.InstanceSpec{InstanceID: inst.ID, BaseCommit: inst.ID, Env: images.EnvSpec{Language: "python", Version: inst.Version}}, nil
}

// fakeStore has some images.
type fakeStore map[string]bool

func (s fakeStore) Image(_ context.Context, ref string) (string, bool, error) {
	return "sha256:x", s[ref], nil
}

func planJobs(n int) runner.List {
	text := "diff"
	var list runner.List
	for i := range n {
		id := fmt.Sprintf("a__b-%d", i)
		list = append(list, runner.Job{
			Instance:   &datasets.Instance{ID: id, Repo: "a/b", Version: fmt.Sprint(i % 2)},
			Recipe:     &datasets.Recipe{},
			Prediction: &datasets.Prediction{InstanceID: id, Model: "m", Patch: &text},
		})
	}
	return list
}

func TestPlan(t *testing.T) {
	list := planJobs(8)
	empty := ""
	list[7].Prediction.Patch = &empty
	list[0].Instance.Image, list[1].Instance.Image = "swebench/x:latest", "swebench/y:latest"
	earlier := map[reports.AttemptID]grading.Outcome{{Model: "m", InstanceID: "a__b-6", Attempt: 1}: grading.Resolved, {Model: "m", InstanceID: "a__b-5", Attempt: 1}: grading.InfraFailed}
	p := prediction{
		workers: 2, builders: 2, limits: runner.Limits{Timeout: time.Hour, Sandbox: sandbox.Limits{MemoryBytes: 4 << 30}},
		capacity: schedule.Resources{MemoryBytes: 8 << 30, DiskBytes: 100 << 30}, jobs: list,
		earlier:   func(id reports.AttemptID) grading.Outcome { return earlier[id] },
		durations: schedule.NewHistory(), images: schedule.NewHistory(),
	}
	for range 8 {
		p.durations.Observe(schedule.Observation{Instance: "a__b-2", Repo: "a/b", Seconds: 60, CPUSeconds: 60, MemoryBytes: 1 << 30, DiskBytes: 1 << 20})
		p.images.Observe(schedule.Observation{Instance: "a__b-2", Repo: "a/b", Seconds: 30, DiskBytes: 2 << 30})
	}
	there := images.Reference(images.Instance, images.InstanceSpec{InstanceID: "a__b-2", BaseCommit: "a__b-2", Env: images.EnvSpec{Language: "python", Version: "0"}}.Key())
	missing, err := missingImages(t.Context(), fakePlanner{}, fakeStore{there: true, "swebench/x:latest": true}, p.wanted())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := p.document(missing)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Attempts != 8 || doc.Instances != 8 || doc.Reused != 1 || doc.Empty != 1 || doc.Workers != 2 {
		t.Errorf("%+v", doc)
	}
	if diff := cmp.Diff(map[string]int{"instance": 1, "repository": 5}, doc.Known); diff != "" {
		t.Errorf("known (-want +got):\n%s", diff)
	}
	if m := doc.Images; m.Have != 2 || len(m.Pull) != 1 || m.Pull[0] != "swebench/y:latest" || m.Instance != 4 || m.Env != 2 || m.Base != 1 {
		t.Errorf("images: %+v", m)
	}
	if r := doc.Time.Tests; r.Low > 200 || r.High < 160 || r.High > 600 {
		t.Errorf("six of a minute on two workers: %+v", r)
	}
	if doc.Time.Images == nil || doc.Time.Total.Low < doc.Time.Tests.Low || doc.Time.Total.High <= doc.Time.Tests.High {
		t.Errorf("times: %+v", doc.Time)
	}
	if doc.Memory.Needed < 2<<30-10 || doc.Memory.Needed > 2<<30 || doc.ImageBytes == nil || doc.ImageBytes.Low >= doc.ImageBytes.High {
		t.Errorf("memory %+v, images %+v", doc.Memory, doc.ImageBytes)
	}
	var text strings.Builder
	if err := doc.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 reused", "1 without a patch", "2 there, 1 to pull, 4 to build", "swebench/y:latest", "5 by others of their repository", "of 8.0 GiB there are"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the plan lacks %q:\n%s", want, text.String())
		}
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"known_by":{"instance":1,"repository":5}`) || !strings.Contains(string(data), `"pull":["swebench/y:latest"]`) {
		t.Errorf("%s", data)
	}
}

// Without any history the plan says that it guesses, and auto is bounded by what
// attempts need.
func TestPlanOfUnknown(t *testing.T) {
	p := prediction{
		workers: autoWorkers, builders: 1, limits: runner.Limits{Timeout: time.Hour}, capacity: schedule.Resources{CPUs: 2, MemoryBytes: 1 << 40}, jobs: planJobs(4),
		durations: schedule.NewHistory(), images: schedule.NewHistory(),
	}
	missing, err := missingImages(t.Context(), fakePlanner{}, fakeStore{}, p.wanted())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := p.document(missing)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Workers != 2 || doc.Known["guessed"] != 4 || doc.ImageBytes != nil {
		t.Errorf("%+v", doc)
	}
	var text strings.Builder
	if err := doc.write(&text); err != nil || !strings.Contains(text.String(), "a guess") || !strings.Contains(text.String(), "sizes are not known") {
		t.Errorf("%v:\n%s", err, text.String())
	}
}
