package hub

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// errNoParquet means that the repository holds its rows in another format.
var errNoParquet = errors.New("no Parquet files")

const defaultConfig = "default"

// splitName is what is looked for; config may be empty.
type splitName struct{ config, split string }

func (n splitName) String() string {
	if n.config == "" || n.config == defaultConfig {
		return n.split
	}
	return n.config + "/" + n.split
}

var (
	// test-00000-of-00001.parquet; older libraries add a fingerprint.
	shardFile = regexp.MustCompile(`^(.+)-(\d{5,9})-of-(\d{5,9})(?:-[0-9a-f]{16})?\.parquet$`)
	// 0000.parquet in a folder named after the split.
	numberedFile = regexp.MustCompile(`^(?:part|shard|data|chunk)?[-_.]?\d+(?:[-_.].*)?\.parquet$`)
)

// chooseShards picks the Parquet files of a split, in order, from the files of
// a repository. The dataset card decides where it says something; otherwise
// the names of the files do.
func chooseShards(files []entry, card []cardConfig, want splitName) (config string, shards []entry, err error) {
	var parquet []entry
	for _, f := range files {
		if strings.HasSuffix(f.path, ".parquet") {
			parquet = append(parquet, f)
		}
	}
	if len(parquet) == 0 {
		return "", nil, errNoParquet
	}
	if len(card) > 0 {
		config, shards, err = byCard(parquet, card, want)
	} else {
		config, shards, err = byName(parquet, want)
	}
	if err != nil {
		return "", nil, err
	}
	slices.SortFunc(shards, func(a, b entry) int { return naturalCompare(a.path, b.path) })
	return config, shards, complete(shards)
}

func byCard(parquet []entry, card []cardConfig, want splitName) (string, []entry, error) {
	known := map[string][]string{}
	preferred := ""
	for _, c := range card {
		known[c.name] = slices.Collect(maps.Keys(c.splits))
		if c.preferred {
			preferred = c.name
		}
	}
	config, err := pickConfig(known, preferred, want)
	if err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(card, func(c cardConfig) bool { return c.name == config })
	patterns := card[i].splits[want.split]
	var shards []entry
	for _, f := range parquet {
		if slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(p, f.path) }) {
			shards = append(shards, f)
		}
	}
	if len(shards) == 0 {
		return "", nil, errNoParquet // the card names files of another format
	}
	return config, shards, nil
}

// byName goes by the ways in which people lay out splits, the strictest first.
func byName(parquet []entry, want splitName) (string, []entry, error) {
	layouts := []func(f entry) splitName{numberedShard, wholeFile, folderOfSplit}
	found := make([]map[splitName][]entry, len(layouts))
	known := map[string][]string{}
	for i, layout := range layouts {
		found[i] = map[splitName][]entry{}
		for _, f := range parquet {
			if n := layout(f); n.split != "" {
				found[i][n] = append(found[i][n], f)
				known[n.config] = append(known[n.config], n.split)
			}
		}
	}
	config, err := pickConfig(known, "", want)
	if errors.Is(err, errNoSplit) {
		return byPrefix(parquet, known, want)
	}
	if err != nil {
		return "", nil, err
	}
	for i := range found {
		if shards := found[i][splitName{config, want.split}]; len(shards) > 0 {
			return config, shards, nil
		}
	}
	return "", nil, errNoParquet
}

func numberedShard(f entry) splitName {
	if m := shardFile.FindStringSubmatch(path.Base(f.path)); m != nil {
		return splitName{configOf(path.Dir(f.path)), m[1]}
	}
	return splitName{}
}

func wholeFile(f entry) splitName {
	base := path.Base(f.path)
	if shardFile.MatchString(base) || numberedFile.MatchString(base) {
		return splitName{}
	}
	return splitName{configOf(path.Dir(f.path)), strings.TrimSuffix(base, ".parquet")}
}

func folderOfSplit(f entry) splitName {
	dir := path.Dir(f.path)
	if dir == "." || shardFile.MatchString(path.Base(f.path)) || !numberedFile.MatchString(path.Base(f.path)) {
		return splitName{}
	}
	return splitName{configOf(path.Dir(dir)), path.Base(dir)}
}

// byPrefix takes <split>-<anything>.parquet. It comes last because
// "test-hard" may well be a split of its own.
func byPrefix(parquet []entry, known map[string][]string, want splitName) (string, []entry, error) {
	found := map[string][]entry{}
	configs := map[string][]string{}
	for _, f := range parquet {
		if strings.HasPrefix(path.Base(f.path), want.split+"-") && !shardFile.MatchString(path.Base(f.path)) {
			config := configOf(path.Dir(f.path))
			found[config] = append(found[config], f)
			configs[config] = []string{want.split}
		}
	}
	config, err := pickConfig(configs, "", want)
	if errors.Is(err, errNoSplit) {
		_, err = pickConfig(known, "", want) // its message lists what there is
	}
	return config, found[config], err
}

func configOf(dir string) string {
	dir = strings.TrimPrefix(dir, "data/")
	if dir == "." || dir == "data" {
		return defaultConfig
	}
	return dir
}

var errNoSplit = fmt.Errorf("%w: no such split", ErrNotFound)

// pickConfig chooses the configuration that has the split: the one asked for,
// the only one, the one the dataset prefers, or "default".
func pickConfig(known map[string][]string, preferred string, want splitName) (string, error) {
	var having, all []string
	for config, splits := range known {
		for _, split := range splits {
			all = append(all, splitName{config, split}.String())
		}
		if slices.Contains(splits, want.split) {
			having = append(having, config)
		}
	}
	slices.Sort(having)
	switch {
	case want.config != "" && slices.Contains(having, want.config):
		return want.config, nil
	case want.config == "" && len(having) == 1:
		return having[0], nil
	case want.config == "" && slices.Contains(having, preferred):
		return preferred, nil
	case want.config == "" && slices.Contains(having, defaultConfig):
		return defaultConfig, nil
	case want.config == "" && len(having) > 1:
		for i := range having {
			having[i] += "/" + want.split
		}
		return "", fmt.Errorf("several configurations have this split; ask for one of %s", listed(having))
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return "", errNoSplit
	}
	return "", fmt.Errorf("%w; there are %s", errNoSplit, listed(all))
}

func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// complete checks that numbered shards are all there, each once, and of one
// upload. Files without numbers cannot be checked.
func complete(shards []entry) error {
	type series struct {
		total int
		files map[int]string
	}
	all := map[string]*series{}
	for _, f := range shards {
		m := shardFile.FindStringSubmatch(path.Base(f.path))
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(m[2])
		total, _ := strconv.Atoi(m[3])
		stem := path.Join(path.Dir(f.path), m[1])
		s := all[stem]
		if s == nil {
			s = &series{total: total, files: map[int]string{}}
			all[stem] = s
		}
		switch {
		case s.total != total:
			return fmt.Errorf("%s: shards of two uploads side by side: of %d and of %d; pin a revision that has one", stem, s.total, total)
		case s.files[number] != "":
			return fmt.Errorf("%s: shard %d is there twice: %s and %s; pin a revision that has one", stem, number, s.files[number], f.path)
		case number >= total:
			return fmt.Errorf("%s is a shard beyond the last of %d", f.path, total)
		}
		s.files[number] = f.path
	}
	for _, stem := range slices.Sorted(maps.Keys(all)) {
		s := all[stem]
		if len(s.files) == s.total {
			continue
		}
		var missing []string
		for number := 0; number < s.total && len(missing) < 20; number++ {
			if s.files[number] == "" {
				missing = append(missing, fmt.Sprintf("%05d", number))
			}
		}
		return fmt.Errorf("%w: %s has %d of %d shards, missing are %s", ErrCorrupt, stem, len(s.files), s.total, strings.Join(missing, ", "))
	}
	return nil
}

var digits = regexp.MustCompile(`\d+|\D+`)

// naturalCompare orders part-2 before part-10.
func naturalCompare(a, b string) int {
	as, bs := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.ParseUint(as[i], 10, 64)
		y, errY := strconv.ParseUint(bs[i], 10, 64)
		order := cmp.Compare(as[i], bs[i])
		if errX == nil && errY == nil && x != y {
			order = cmp.Compare(x, y)
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(as), len(bs))
}
