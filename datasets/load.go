package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Hub resolves a dataset id and a split to Parquet files on this machine.
type Hub interface {
	Fetch(ctx context.Context, id, split string) ([]string, error)
}

// LoadOptions say which part of a dataset to read, and from where.
type LoadOptions struct {
	Split string // "" means "test"
	Hub   Hub    // nil: dataset ids are refused
}

// Dataset is the instances of one split, in the order of the input.
type Dataset struct {
	Name      string // as given; the hub id when it came from there
	Split     string
	Files     []string // the files read, in order
	Instances []Instance
	// SHA256 is over the content of all instances, ordered by id: the same for
	// every file format and order of rows.
	SHA256 string
	// Warnings are the faults that do not keep the dataset from being used.
	Warnings Problems

	byID map[string]int
}

// NewDataset makes a dataset of instances at hand.
func NewDataset(name, split string, instances []Instance) *Dataset {
	d := &Dataset{Name: name, Split: split, Instances: instances, SHA256: contentHash(instances), byID: make(map[string]int, len(instances))}
	for i := range instances {
		if _, ok := d.byID[instances[i].ID]; !ok {
			d.byID[instances[i].ID] = i
		}
	}
	return d
}

// Lookup returns the instance with an id.
func (d *Dataset) Lookup(id string) (*Instance, bool) {
	i, ok := d.byID[id]
	if !ok {
		return nil, false
	}
	return &d.Instances[i], true
}

// IDs returns the instance ids in dataset order.
func (d *Dataset) IDs() []string {
	ids := make([]string, len(d.Instances))
	for i := range d.Instances {
		ids[i] = d.Instances[i].ID
	}
	return ids
}

// Load reads a dataset. name is a file (.json, .jsonl, each also .gz or .zst,
// or .parquet), a folder with a file for the split, a hub id (owner/name) or an
// alias of one (full, lite, verified, multilingual, multimodal). What exists on
// this machine goes before ids.
//
// When the error is Problems, the dataset is returned too, with the rows that
// could be read: for showing, not for running.
func Load(ctx context.Context, name string, opts LoadOptions) (*Dataset, error) {
	split := opts.Split
	if split == "" {
		split = "test"
	}
	if !splitName.MatchString(split) {
		return nil, fmt.Errorf("split %q: a split is a word such as test or dev", split)
	}
	files, label, err := resolve(ctx, name, split, opts.Hub)
	if err != nil {
		return nil, err
	}
	rows := newRowReader()
	for _, file := range files {
		rows.readFile(ctx, file, maxRecord)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("load dataset %s: %w", name, err)
		}
	}
	if len(rows.instances) == 0 && rows.problems.Err() == nil {
		rows.problems.fatal(Position{File: files[0]}, "", "there are no rows", "check the file and the split")
	}
	d := NewDataset(label, split, rows.instances)
	d.Files, d.Warnings = files, rows.problems.Warnings()
	return d, rows.problems.Err()
}

// readFile adds the rows of one file.
func (r *rowReader) readFile(ctx context.Context, path string, max int) {
	if formatOf(path) == formatParquet {
		wanted := map[string]bool{recipeColumn: true}
		for _, c := range columns {
			wanted[c.name] = true
		}
		for _, c := range listColumns {
			wanted[c.name] = true
		}
		err := readParquet(ctx, path, wanted, func(cells map[string]any, number int) bool {
			r.add(cells, Position{File: path, Line: number}, "")
			return !r.problems.full()
		})
		if errors.Is(err, errFull) {
			r.problems.stopped(Position{File: path})
		} else if err != nil {
			r.problems.fatalErr(Position{File: path}, "", err)
		}
		return
	}
	r.readText(ctx, path, func() (io.ReadCloser, error) { return openText(path) }, max)
}

// readText adds the rows of one JSON or JSONL text.
func (r *rowReader) readText(ctx context.Context, path string, open func() (io.ReadCloser, error), max int) {
	reader := &recordReader{path: path, open: open, max: max, problems: &r.problems, emit: func(rec record) {
		cells := make(map[string]any, len(rec.fields))
		for name, raw := range rec.fields {
			cells[name] = raw
		}
		r.add(cells, rec.pos, rec.key)
	}}
	reader.read(ctx)
}

var splitName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// resolve turns a name into the files to read and the name to show.
func resolve(ctx context.Context, name, split string, hub Hub) ([]string, string, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		files, err := splitFiles(name, split)
		return files, name, err
	case err == nil:
		if formatOf(name) == formatUnknown {
			return nil, "", fmt.Errorf("dataset %s: unknown kind of file (use .json, .jsonl, either with .gz or .zst, or .parquet)", name)
		}
		return []string{name}, name, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("dataset %s: %w", name, pathless(err))
	}
	id, ok := hubID(name)
	if !ok {
		return nil, "", fmt.Errorf("dataset %q: no such file or folder, and no dataset id (give a path, owner/name, or one of full, lite, verified, multilingual, multimodal)", name)
	}
	if hub == nil {
		return nil, "", fmt.Errorf("dataset %s: no such file or folder, and the hub is not asked here (download %s and give its path)", name, id)
	}
	files, err := hub.Fetch(ctx, id, split)
	if err != nil {
		return nil, "", fmt.Errorf("dataset %s, split %s: %w", id, split, err)
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("dataset %s: the hub has no files for split %s (try another --split)", id, split)
	}
	return files, id, nil
}

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)
	variants = map[string]string{
		"full": "SWE-bench/SWE-bench", "lite": "SWE-bench/SWE-bench_Lite", "verified": "SWE-bench/SWE-bench_Verified",
		"multilingual": "SWE-bench/SWE-bench_Multilingual", "multimodal": "SWE-bench/SWE-bench_Multimodal",
	}
)

// hubID returns the hub id a name stands for: an alias in any of the spellings
// in use (lite, swe-bench-lite, SWE_bench_Lite, swebench-lite), or an id itself.
func hubID(name string) (string, bool) {
	word := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if word == "swebench" {
		return variants["full"], true
	}
	if id, ok := variants[strings.TrimPrefix(word, "swebench")]; ok {
		return id, true
	}
	if idForm.MatchString(name) && formatOf(name) == formatUnknown {
		return name, true
	}
	return "", false
}

// splitFiles finds the files of a split in a folder.
func splitFiles(dir, split string) ([]string, error) {
	names, err := fileNames(dir)
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", dir, pathless(err))
	}
	data := filepath.Join(dir, "data")
	inData, _ := fileNames(data) // mostly there is none; one that cannot be read ends in "no file for split"
	whole := func(n string) bool { return n == split+".parquet" }
	shard := func(n string) bool { return strings.HasPrefix(n, split+"-") && strings.HasSuffix(n, ".parquet") }
	for _, try := range []struct {
		dir   string
		names []string
		match func(string) bool
	}{
		{dir, names, whole}, {dir, names, shard},
		{data, inData, whole}, {data, inData, shard},
	} {
		found := matching(try.dir, try.names, try.match)
		if len(found) > 0 {
			return found, checkShards(dir, found)
		}
	}
	found := matching(dir, names, func(n string) bool {
		f := formatOf(n)
		return (f == formatJSON || f == formatJSONL) && textStem(n) == split
	})
	switch len(found) {
	case 1:
		return found, nil
	case 0:
		return nil, noSplit(dir, split, append(names, inData...))
	}
	return nil, fmt.Errorf("dataset %s: several files for split %s: %s (give the path of one)", dir, split, strings.Join(found, ", "))
}

// fileNames lists a folder, sorted.
func fileNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func matching(dir string, names []string, match func(string) bool) []string {
	var found []string
	for _, n := range names {
		if match(n) {
			found = append(found, filepath.Join(dir, n))
		}
	}
	return found
}

var shardName = regexp.MustCompile(`-(\d+)-of-(\d+)\.parquet$`)

// checkShards refuses a split of which a part is missing: half a benchmark
// would be graded without a word.
func checkShards(dir string, files []string) error {
	for i, file := range files {
		m := shardName.FindStringSubmatch(file)
		if m == nil {
			continue
		}
		number, err1 := strconv.Atoi(m[1])
		of, err2 := strconv.Atoi(m[2])
		if errors.Join(err1, err2) != nil || number != i || of != len(files) {
			return fmt.Errorf("dataset %s: the shards are not complete: %d files, %s among them (copy the missing ones, remove others)", dir, len(files), filepath.Base(file))
		}
	}
	return nil
}

func noSplit(dir, split string, names []string) error {
	have := "it holds no .parquet, .jsonl or .json file"
	var data []string
	for _, n := range names {
		if formatOf(n) != formatUnknown {
			data = append(data, n)
		}
		if strings.HasSuffix(n, ".arrow") || n == "dataset_dict.json" || n == "dataset_info.json" {
			return fmt.Errorf("dataset %s: a folder of Arrow files (save_to_disk) is not read (write it with to_parquet or to_json)", dir)
		}
	}
	if len(data) > 0 {
		have = "it holds " + strings.Join(data, ", ")
	}
	return fmt.Errorf("dataset %s: no file for split %s (%s; use --split, or give the path of a file)", dir, split, have)
}
