package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"sort"
)

// canonical hashes named fields so that no two different sequences of fields
// feed the same bytes: every name and value is preceded by its length.
type canonical struct{ h hash.Hash }

func newCanonical(kind string) canonical {
	c := canonical{sha256.New()}
	c.bytes(kind)
	return c
}

func (c canonical) bytes(s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	c.h.Write(n[:])
	c.h.Write([]byte(s))
}

func (c canonical) text(name, value string) {
	c.bytes(name)
	c.bytes(value)
}

func (c canonical) list(name string, values []string) {
	c.bytes(name)
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(values)))
	c.h.Write(n[:])
	for _, v := range values {
		c.bytes(v)
	}
}

func (c canonical) sum() string { return hex.EncodeToString(c.h.Sum(nil)) }

// Hash is the SHA-256, in hexadecimal, of everything in the row that determines
// the verdict on a patch: where it applies, how the image is made, how the
// tests are run and read, and which must pass. The gold patch and the prose do
// not. A field left empty hashes as the value it stands for.
func (i *Instance) Hash() string {
	c := newCanonical("evalrun instance 1")
	c.text("instance_id", i.ID)
	c.text("repo", i.Repo)
	c.text("base_commit", i.BaseCommit)
	c.text("environment_setup_commit", or(i.EnvironmentSetupCommit, i.BaseCommit))
	c.text("version", i.Version)
	c.text("language", i.Language)
	c.text("test_patch", i.TestPatch)
	c.list("FAIL_TO_PASS", i.FailToPass)
	c.list("PASS_TO_PASS", i.PassToPass)
	c.text("image", i.Image)
	c.text("eval_script", i.EvalScript)
	c.text("log_parser", i.LogParser)
	c.text("eval_type", or(i.EvalType, "pass_and_fail"))
	c.text("dockerfile", i.Dockerfile)
	c.recipe(i.Recipe)
	return c.sum()
}

func or(value, standsFor string) string {
	if value == "" {
		return standsFor
	}
	return value
}

func (c canonical) recipe(r *Recipe) {
	if r == nil {
		c.text("recipe", "")
		return
	}
	// A struct of strings, numbers and lists always marshals, in field order.
	data, _ := json.Marshal(r)
	c.text("recipe", string(data))
	// What the JSON form leaves out.
	whole := "no"
	if r.Evaluation.Whole {
		whole = "yes"
	}
	c.text("recipe.whole", whole)
	c.text("recipe.test_patch", r.Evaluation.TestPatch)
}

// contentHash covers every column, in the order of ids.
func contentHash(instances []Instance) string {
	order := make([]*Instance, len(instances))
	for i := range instances {
		order[i] = &instances[i]
	}
	sort.SliceStable(order, func(a, b int) bool { return order[a].ID < order[b].ID })
	c := newCanonical("evalrun dataset 1")
	for _, i := range order {
		c.text("instance", i.Hash())
		c.text("patch", i.Patch)
		c.text("problem_statement", i.ProblemStatement)
		c.text("hints_text", i.HintsText)
		c.text("created_at", i.CreatedAt)
		c.text("difficulty", i.Difficulty)
	}
	return c.sum()
}
