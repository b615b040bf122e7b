package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// predictionFile is a file of a folder that holds one prediction.
type predictionFile struct {
	path  string
	id    string // what its name says
	model string // name of the folder that holds the instances
}

// folderScan sorts the files of a folder of predictions.
type folderScan struct {
	r       *predictionReader
	patches []predictionFile
	records []predictionFile // JSON
	ignored []string
}

// readFolder reads a folder with one file per instance:
//
//	<id>.diff  <id>.patch  <id>.txt  <id>-diff.txt  <id>/patch.diff  <id>/model.patch
//	<id>.json  <id>.pred (JSON)  <id>/<id>.json
//
// each also one folder down. Where there are patch files, JSON files are taken
// for by-products. Patches are of the model that opts name, else of the one
// their folder is called after, so that folders of several models stay apart.
func (r *predictionReader) readFolder(root string) {
	scan := &folderScan{r: r}
	scan.folder(root, 0)
	files := scan.patches
	if len(files) > 0 {
		for _, f := range scan.records {
			scan.ignored = append(scan.ignored, f.path)
		}
	} else {
		files = scan.records
	}
	pos := Position{File: root}
	if len(files) == 0 {
		r.problems.fatal(pos, "", "there is no file of a prediction in the folder", emptyFolderFix(scan.ignored))
		return
	}
	if n := len(scan.ignored); n > 0 {
		r.problems.warn(pos, "", fmt.Sprintf("%d files are not taken for predictions: %s", n, some(scan.ignored)),
			"predictions are called <instance_id>.diff, .patch or .json")
	}
	for _, f := range files {
		if len(scan.patches) > 0 {
			r.patchFile(f)
		} else {
			r.readFile(f.path, f.id, maxRecord)
		}
	}
}

func emptyFolderFix(ignored []string) string {
	for _, path := range ignored {
		if formatOf(path) != formatUnknown {
			return "for one file with all predictions give its own path: " + path
		}
	}
	return "patches are called <instance_id>.diff, .patch or <instance_id>/patch.diff"
}

// some names the first few of a list.
func some(list []string) string {
	const few = 3
	if len(list) <= few {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:few], ", ") + ", …"
}

const folderDepth = 2 // root/<folder>/<id>/patch.diff

func (s *folderScan) folder(dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.r.problems.fatalErr(Position{File: dir}, "", pathless(err))
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		info, err := os.Stat(path) // follows symbolic links, but those to folders may go round
		switch {
		case err != nil:
			s.r.problems.fatalErr(Position{File: path}, "", pathless(err))
		case entry.IsDir() && depth < folderDepth:
			s.folder(path, depth+1)
		case info.Mode().IsRegular():
			s.file(path, depth)
		default:
			s.ignored = append(s.ignored, path)
		}
	}
}

// file decides what a file is, by its name alone.
func (s *folderScan) file(path string, depth int) {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	name := filepath.Base(abs)
	holder := filepath.Dir(abs)
	parent := filepath.Base(holder)
	stem, isPatch := s.patchStem(name)
	isRecord := false
	if !isPatch {
		stem, isRecord = recordStem(name)
	}
	// <id>/patch.diff and <id>/<id>.patch: the folder is the instance's.
	own := name == "patch.diff" || name == "model.patch" || (depth > 0 && stem == parent)
	if own {
		stem, holder = parent, filepath.Dir(holder)
	}
	f := predictionFile{path: path, id: stem, model: or(s.r.opts.Model, filepath.Base(holder))}
	switch {
	case depth == folderDepth && !own:
		s.ignored = append(s.ignored, path)
	case isPatch:
		s.patches = append(s.patches, f)
	case isRecord:
		s.records = append(s.records, f)
	default:
		s.ignored = append(s.ignored, path)
	}
}

// patchStem returns the instance id in the name of a patch file.
func (s *folderScan) patchStem(name string) (string, bool) {
	for _, suffix := range []string{"-diff.txt", ".diff", ".patch"} {
		if stem, ok := strings.CutSuffix(name, suffix); ok && stem != "" {
			return stem, true
		}
	}
	stem, ok := strings.CutSuffix(name, ".txt")
	if !ok {
		return "", false
	}
	// Any other text may be a README; an id is known, or has the usual form.
	if s.r.ds != nil {
		if _, known := s.r.ds.Lookup(stem); known {
			return stem, true
		}
	}
	return stem, strings.Contains(stem, "__")
}

func recordStem(name string) (string, bool) {
	if stem, ok := strings.CutSuffix(name, ".pred"); ok {
		return stem, true
	}
	return textStem(name), formatOf(name) == formatJSON
}

// patchFile adds a patch, byte for byte: it need not be UTF-8.
func (r *predictionReader) patchFile(f predictionFile) {
	pos := Position{File: f.path}
	info, err := os.Stat(f.path)
	if err == nil && info.Size() > maxRecord {
		err = &fault{fmt.Sprintf("the patch is larger than %d MiB", maxRecord>>20), "drop the instance, or what was built by accident"}
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.path)
	}
	if err != nil {
		r.problems.fatalErr(pos, f.id, pathless(err))
		return
	}
	text := string(data)
	r.add(Prediction{InstanceID: f.id, Model: f.model, Patch: &text, Source: pos}, place{length: len(text)})
}
