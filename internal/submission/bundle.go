// Package submission makes the folders that leaderboards take (all_preds.jsonl,
// metadata.yaml, results/, logs/, trajs/) and finds what is wrong with them.
//
// A check believes nothing that a submission says of itself: verdicts are what
// package grading makes of its logs. It must not know about engines or images.
package submission

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports/results"
)

// Meta is what metadata.yaml says of a system.
type Meta struct {
	Name   string // to show
	Org    string
	Site   string
	Models []string
	Open   bool // the system's source is open
}

// Bundle is what a submission is made of.
type Bundle struct {
	Set   *results.Set // one system's attempts, with the folders of their files
	Facts map[string]results.Facts
	Meta  Meta
	Trajs string // folder with trajectories, named after their instances; "" is none
}

// Made counts what is in the folder.
type Made struct {
	Instances, Predictions, Logs, Resolved int
	Trajs                                  int
}

// logFiles are those of an attempt that the layout has.
var logFiles = []string{"patch.diff", "eval.sh", "report.json", "test_output.txt", "run_instance.log"}

// Write makes the folder dir, which must not be there or be empty, whole or not at all:
// until it is whole it has another name.
func Write(ctx context.Context, dir string, b Bundle) (Made, error) {
	var made Made
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return made, err
	}
	if len(entries) > 0 {
		return made, fmt.Errorf("%s: is not empty; give a new folder, such as %s", dir, dir+"-2")
	}
	place, err := filepath.Abs(dir)
	if err != nil {
		return made, err
	}
	stage := filepath.Join(filepath.Dir(place), fmt.Sprintf(".%.100s.%016x.tmp", filepath.Base(place), rand.Uint64()))
	defer os.RemoveAll(stage)
	for _, sub := range []string{"results", "logs", "trajs"} {
		if err := os.MkdirAll(filepath.Join(stage, sub), 0o777); err != nil {
			return made, err
		}
	}
	made.Instances = len(b.Set.Items)
	for _, step := range []func(context.Context, string, *Bundle, *Made) error{predictions, logs, resultFiles, trajectories, metadata} {
		if err := step(ctx, stage, &b, &made); err != nil {
			return made, fmt.Errorf("submission %s: %w", dir, err)
		}
	}
	return made, os.Rename(stage, place) // over an empty folder, too
}

// predictions writes all_preds.jsonl from the patches that were run, byte for byte.
func predictions(ctx context.Context, dir string, b *Bundle, made *Made) (err error) {
	f, err := os.Create(filepath.Join(dir, "all_preds.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := range b.Set.Items {
		it := &b.Set.Items[i]
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !it.Submitted {
			continue
		}
		patch, err := os.ReadFile(filepath.Join(it.Dir, "patch.diff"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("instance %s: %w", it.ID, err)
		}
		if err != nil && it.Outcome != grading.EmptyPatch {
			return fmt.Errorf("instance %s: its attempt has no patch.diff (%s); run it again", it.ID, it.Outcome)
		}
		err = enc.Encode(struct {
			ID    string `json:"instance_id"`
			Model string `json:"model_name_or_path"`
			Patch string `json:"model_patch"`
		}{it.ID, b.Set.Model, string(patch)})
		if err != nil {
			return err
		}
		made.Predictions++
	}
	return out.Flush()
}

// logs copies the files of the attempts, byte for byte.
func logs(ctx context.Context, dir string, b *Bundle, made *Made) error {
	for i := range b.Set.Items {
		it := &b.Set.Items[i]
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if it.Dir == "" {
			continue
		}
		to := filepath.Join(dir, "logs", filepath.Base(it.Dir))
		copied := 0
		for _, name := range logFiles {
			switch err := copyFile(filepath.Join(it.Dir, name), filepath.Join(to, name)); {
			case err == nil:
				copied++
			case !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("instance %s: %w", it.ID, err)
			}
		}
		if copied > 0 {
			made.Logs++
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", from)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// tally is resolved of all, in results/resolved_by_*.json.
type tally struct {
	Resolved int `json:"resolved"`
	Total    int `json:"total"`
}

// claims is results/results.json.
type claims struct {
	NoGeneration []string `json:"no_generation"`
	NoLogs       []string `json:"no_logs"`
	Resolved     []string `json:"resolved"`
}

func resultFiles(_ context.Context, dir string, b *Bundle, made *Made) error {
	said := claims{NoGeneration: []string{}, NoLogs: []string{}, Resolved: []string{}}
	byRepo, byTime := map[string]*tally{}, map[string]*tally{}
	for i := range b.Set.Items {
		it := &b.Set.Items[i]
		facts := b.Facts[it.ID]
		count(byRepo, results.RepoOf(it, facts), it.Resolved())
		if len(facts.Created) >= 4 {
			count(byTime, facts.Created[:4], it.Resolved())
		}
		switch {
		case !it.Submitted || it.Outcome == grading.EmptyPatch:
			said.NoGeneration = append(said.NoGeneration, it.ID)
		case it.Resolved():
			said.Resolved = append(said.Resolved, it.ID)
		case !isFile(it.Dir, "report.json"):
			said.NoLogs = append(said.NoLogs, it.ID)
		}
	}
	made.Resolved = len(said.Resolved)
	for name, v := range map[string]any{"results.json": said, "resolved_by_repo.json": byRepo, "resolved_by_time.json": byTime} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := cache.WriteFile(filepath.Join(dir, "results", name), append(data, '\n'), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func count(of map[string]*tally, key string, resolved bool) {
	if key == "" {
		return
	}
	if of[key] == nil {
		of[key] = &tally{}
	}
	of[key].Total++
	if resolved {
		of[key].Resolved++
	}
}

func isFile(parts ...string) bool {
	info, err := os.Lstat(filepath.Join(parts...))
	return err == nil && info.Mode().IsRegular()
}

// trajectories copies the files whose names are an instance's, with any ending.
func trajectories(ctx context.Context, dir string, b *Bundle, made *Made) error {
	if b.Trajs == "" {
		return nil
	}
	entries, err := os.ReadDir(b.Trajs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !e.Type().IsRegular() || b.Set.Find(instanceOf(b.Set, e.Name())) == nil {
			continue
		}
		if err := copyFile(filepath.Join(b.Trajs, e.Name()), filepath.Join(dir, "trajs", e.Name())); err != nil {
			return err
		}
		made.Trajs++
	}
	if made.Trajs == 0 {
		return fmt.Errorf("%s: no file there is named after an instance, such as %s.json", b.Trajs, b.Set.Items[0].ID)
	}
	return nil
}

// instanceOf cuts endings off a name until it is an instance's; "" if it never is.
func instanceOf(s *results.Set, name string) string {
	for {
		if s.Find(name) != nil {
			return name
		}
		at := strings.LastIndexByte(name, '.')
		if at <= 0 {
			return ""
		}
		name = name[:at]
	}
}

func metadata(_ context.Context, dir string, b *Bundle, _ *Made) error {
	m := yaml.MapSlice{
		{Key: "info", Value: yaml.MapSlice{{Key: "name", Value: b.Meta.Name}, {Key: "site", Value: b.Meta.Site}}},
		{Key: "tags", Value: yaml.MapSlice{
			{Key: "checked", Value: false}, {Key: "model", Value: b.Meta.Models}, {Key: "org", Value: b.Meta.Org}, {Key: "os_system", Value: b.Meta.Open},
			{Key: "system", Value: yaml.MapSlice{{Key: "attempts", Value: "1"}}},
		}},
	}
	data, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return cache.WriteFile(filepath.Join(dir, "metadata.yaml"), data, 0o666)
}
