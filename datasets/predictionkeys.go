package datasets

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// keyAliases are what people write for the keys of a prediction, without
// "_" and "-" and in lower case.
var keyAliases = map[string][]string{
	keyInstance: {"instanceid", "instance", "id", "taskid", "problemid"},
	keyModel:    {"modelnameorpath", "modelname", "model", "modelpath", "modelid", "nameorpath", "agent"},
	keyPatch:    {"modelpatch", "patch", "prediction", "diff", "gitpatch", "gitdiff", "modeldiff", "modelprediction", "generatedpatch", "fixpatch", "output", "modeloutput"},
}

// field returns the value of a key. When it is missing, the key that was
// probably meant is named; it is used only with AcceptAliases.
func (r *predictionReader) field(rec record, key, id string, required bool) (json.RawMessage, error) {
	if raw, ok := rec.fields[key]; ok {
		return raw, nil
	}
	if key == keyInstance && !required {
		return nil, nil // an "id" in the record may be anything, the container has said it already
	}
	meant := likelyKeys(rec.fields, key)
	switch {
	case len(meant) == 1 && r.opts.AcceptAliases:
		r.warn(rec.pos, id, fmt.Sprintf("key %q is taken for %s", meant[0], key), "better write "+key)
		return rec.fields[meant[0]], nil
	case !required:
		return nil, nil
	case len(meant) == 1:
		return nil, &fault{fmt.Sprintf("key %s is missing, and %q was probably meant", key, meant[0]), fmt.Sprintf("rename %q to %s, or accept aliases", meant[0], key)}
	case len(meant) > 1:
		return nil, &fault{fmt.Sprintf("key %s is missing, and any of %q may be meant", key, meant), "rename the right one to " + key}
	}
	return nil, &fault{"key " + key + " is missing", missingFix(key, rec.fields)}
}

func missingFix(key string, fields map[string]json.RawMessage) string {
	var have []string
	for name := range fields {
		have = append(have, name)
	}
	sort.Strings(have)
	has := "the record has no keys"
	if len(have) > 8 {
		have = append(have[:8], "…")
	}
	if len(have) > 0 {
		has = "the record has " + strings.Join(have, ", ")
	}
	switch key {
	case keyModel:
		return "add it, or name the model with --model; " + has
	case keyPatch:
		return "add it, null for no patch; " + has
	}
	return "add it; " + has
}

// likelyKeys returns the keys of a record that were probably meant for key:
// the spelling of it nearest to right, or else its aliases.
func likelyKeys(fields map[string]json.RawMessage, key string) []string {
	var spelled, aliases []string
	for name := range fields {
		if name == keyInstance || name == keyModel || name == keyPatch {
			continue
		}
		plain := plainKey(name)
		if editDistance(plain, plainKey(key), 2) <= 2 {
			spelled = append(spelled, name)
			continue
		}
		for _, alias := range keyAliases[key] {
			if plain == alias {
				aliases = append(aliases, name)
				break
			}
		}
	}
	if len(spelled) > 0 {
		aliases = spelled
	}
	sort.Strings(aliases)
	return aliases
}

func plainKey(key string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(key))
}
