package hub

import (
	"encoding/json"
	"path"
	"strings"
)

// cardConfig is what a dataset card says about one configuration: which file
// patterns make up which split.
type cardConfig struct {
	name      string
	preferred bool
	splits    map[string][]string
}

// configs reads the configurations of the card. A card that says nothing about
// files, or says it in a way we do not know, has none.
func (info *repoInfo) configs() []cardConfig {
	var card struct {
		Configs []struct {
			Name      string          `json:"config_name"`
			Default   bool            `json:"default"`
			DataDir   string          `json:"data_dir"`
			DataFiles json.RawMessage `json:"data_files"`
		} `json:"configs"`
	}
	if json.Unmarshal(info.CardData, &card) != nil {
		return nil
	}
	var configs []cardConfig
	for _, c := range card.Configs {
		splits := cardSplits(c.DataFiles)
		if len(splits) == 0 {
			continue
		}
		for _, patterns := range splits {
			for i := range patterns {
				patterns[i] = path.Join(c.DataDir, patterns[i])
			}
		}
		if c.Name == "" {
			c.Name = defaultConfig
		}
		configs = append(configs, cardConfig{c.Name, c.Default, splits})
	}
	return configs
}

// cardSplits reads data_files: a pattern, a list of patterns (both mean the
// split train), or a list of splits with one or more patterns each.
func cardSplits(raw json.RawMessage) map[string][]string {
	if patterns := oneOrMore(raw); len(patterns) > 0 {
		return map[string][]string{"train": patterns}
	}
	var list []struct {
		Split string          `json:"split"`
		Path  json.RawMessage `json:"path"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	splits := map[string][]string{}
	for _, s := range list {
		if patterns := oneOrMore(s.Path); s.Split != "" && len(patterns) > 0 {
			splits[s.Split] = append(splits[s.Split], patterns...)
		}
	}
	return splits
}

func oneOrMore(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	var more []string
	if json.Unmarshal(raw, &more) == nil {
		return more
	}
	return nil
}

// matchGlob matches a path against a pattern in which ** stands for any number
// of folders and * stays within one name.
func matchGlob(pattern, name string) bool {
	return matchSegments(strings.Split(path.Clean(pattern), "/"), strings.Split(name, "/"))
}

func matchSegments(pattern, name []string) bool {
	for i, p := range pattern {
		if p == "**" {
			for skip := i; skip <= len(name); skip++ {
				if matchSegments(pattern[i+1:], name[skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(name) {
			return false
		}
		if ok, err := path.Match(p, name[i]); err != nil || !ok {
			return false
		}
	}
	return len(pattern) == len(name)
}
