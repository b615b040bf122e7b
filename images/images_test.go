package images

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/evalrun/evalrun/internal/mirror"
)

func sampleBase() BaseSpec {
	return BaseSpec{Source: Source{"debian", "bookworm"}, Digest: "sha256:" + strings.Repeat("a", 64), Platform: "linux/amd64"}
}

func sampleEnv() EnvSpec {
	return EnvSpec{
		Base: sampleBase(), Language: "py", Version: "3.9",
		Python: PythonSpec{Want: "3.9", Have: "3.9.18", From: "interpreters", Digest: "sha256:" + strings.Repeat("b", 64), Path: "/home/one/versions/3.9.18"},
		Apt:    []string{"libxml2-dev"}, Pip: []string{"pytest==7.0"}, PipLate: []string{"numpy"}, Requirements: "six", Commands: []string{"true"},
	}
}

func sampleInstance() InstanceSpec {
	return InstanceSpec{
		Env: sampleEnv(), InstanceID: "psf__requests-1", Repo: "psf/requests", BaseCommit: strings.Repeat("c", 40), Mirror: "/mirrors/psf/requests.git",
		PreInstall: []string{"true"}, Install: []string{"pip install ."}, Warmup: "make test", Dockerfile: "",
	}
}

// A changed value here means that everybody's images are built anew: on purpose
// only, with Revision raised.
func TestKeysGolden(t *testing.T) {
	for name, test := range map[string][2]string{
		"base":     {sampleBase().Key(), "2f547b22740e1c45f05b90c1eae1baaac1da282aec63edcaa6873c31f8046cf5"},
		"env":      {sampleEnv().Key(), "b6896ad8588e969fa4553bcbc28426c0f15ba98ef0ac3f9ca84310c4dc2ecf1f"},
		"instance": {sampleInstance().Key(), "6c2368a027c6f20ef952ee44c0e8817350dbea4fbf222ad4e9b25d6761f33fa7"},
	} {
		if test[0] != test[1] {
			t.Errorf("%s key is %s, was %s", name, test[0], test[1])
		}
	}
	if ref := Reference(Env, strings.Repeat("0123456789", 6)); ref != "evalrun/env:01234567890123456789" {
		t.Errorf("reference %s", ref)
	}
}

// notInKeys are the fields that do not shape a layer, by type.
var notInKeys = map[string][]string{
	"BaseSpec":     nil,
	"Source":       nil,
	"EnvSpec":      {"Deviations"},
	"PythonSpec":   {"Want", "Path"},
	"InstanceSpec": {"InstanceID", "Mirror", "Deviations"},
	"Submodule":    {"Name", "URL", "Repository"},
}

// Every field either changes the key or is listed above as one that must not: a
// new field cannot be forgotten.
func TestEveryFieldIsInTheKeyOrListed(t *testing.T) {
	checkFields(t, reflect.TypeFor[BaseSpec](), func(change func(reflect.Value)) string {
		s := sampleBase()
		change(reflect.ValueOf(&s).Elem())
		return s.Key()
	})
	checkFields(t, reflect.TypeFor[EnvSpec](), func(change func(reflect.Value)) string {
		s := sampleEnv()
		change(reflect.ValueOf(&s).Elem())
		return s.Key()
	})
	checkFields(t, reflect.TypeFor[PythonSpec](), func(change func(reflect.Value)) string {
		s := sampleEnv()
		change(reflect.ValueOf(&s.Python).Elem())
		return s.Key()
	})
	checkFields(t, reflect.TypeFor[InstanceSpec](), func(change func(reflect.Value)) string {
		s := sampleInstance()
		change(reflect.ValueOf(&s).Elem())
		return s.Key()
	})
	checkFields(t, reflect.TypeFor[mirror.Submodule](), func(change func(reflect.Value)) string {
		s := sampleInstance()
		s.Submodules = []mirror.Submodule{{Name: "n", Path: "p", URL: "u", Commit: "c", Repository: "r"}}
		change(reflect.ValueOf(&s.Submodules[0]).Elem())
		return s.Key()
	})
}

func checkFields(t *testing.T, typ reflect.Type, key func(change func(reflect.Value)) string) {
	t.Helper()
	plain := key(func(reflect.Value) {})
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		changed := key(func(v reflect.Value) { alter(t, v.Field(i)) }) != plain
		if free := slices.Contains(notInKeys[typ.Name()], name); changed == free {
			t.Errorf("%s.%s: changes the key: %v, want %v", typ.Name(), name, changed, !free)
		}
	}
}

func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case string:
		v.SetString(v.String() + "x")
	case bool:
		v.SetBool(!v.Bool())
	case []string:
		v.Set(reflect.ValueOf(append(slices.Clone(v.Interface().([]string)), "x")))
	case []mirror.Submodule:
		v.Set(reflect.ValueOf(append(slices.Clone(v.Interface().([]mirror.Submodule)), mirror.Submodule{Path: "x", Commit: "x"})))
	case BaseSpec:
		v.FieldByName("Digest").SetString("x")
	case EnvSpec:
		v.FieldByName("Requirements").SetString("x")
	case PythonSpec:
		v.FieldByName("Have").SetString("x")
	case Source:
		v.FieldByName("Kind").SetString("rootfs")
	default:
		t.Fatalf("no way to alter a %s: add one", v.Type())
	}
}

func TestKeysTellNeighboursApart(t *testing.T) {
	env := func(change func(*EnvSpec)) string { s := sampleEnv(); change(&s); return s.Key() }
	instance := func(change func(*InstanceSpec)) string { s := sampleInstance(); change(&s); return s.Key() }
	for name, pair := range map[string][2]string{
		"pip or late": {
			env(func(s *EnvSpec) { s.Pip, s.PipLate = []string{"a", "b"}, nil }), env(func(s *EnvSpec) { s.Pip, s.PipLate = []string{"a"}, []string{"b"} })},
		"one word or two": {
			env(func(s *EnvSpec) { s.Apt = []string{"a b"} }), env(func(s *EnvSpec) { s.Apt = []string{"a", "b"} })},
		"order": {
			env(func(s *EnvSpec) { s.Pip = []string{"a", "b"} }), env(func(s *EnvSpec) { s.Pip = []string{"b", "a"} })},
		"before or in the install": {
			instance(func(s *InstanceSpec) { s.PreInstall, s.Install = []string{"a"}, nil }), instance(func(s *InstanceSpec) { s.PreInstall, s.Install = nil, []string{"a"} })},
		"submodule that cannot be had": {
			instance(func(s *InstanceSpec) { s.Submodules = []mirror.Submodule{{Path: "p", Commit: "c"}} }),
			instance(func(s *InstanceSpec) { s.Submodules = []mirror.Submodule{{Path: "p", Commit: "c", Missing: "no copy"}} })},
	} {
		if pair[0] == pair[1] {
			t.Errorf("%s: same key", name)
		}
	}
	// A base's path or tag is this machine's affair; its digest is the content.
	one, two := sampleBase(), sampleBase()
	one.Source, two.Source = Source{"rootfs", "/a/one.tar"}, Source{"rootfs", "/b/two.tar"}
	if one.Key() != two.Key() {
		t.Error("the path of a root file system is part of the key")
	}
}

func TestPlanNamesEachLayerOnce(t *testing.T) {
	var specs []InstanceSpec
	for i := range 20 {
		s := sampleInstance()
		s.InstanceID, s.BaseCommit = fmt.Sprintf("psf__requests-%d", i), fmt.Sprintf("%040x", i)
		s.Mirror = fmt.Sprintf("/mirrors/%d", i)
		specs = append(specs, s)
	}
	twin := specs[3]
	twin.InstanceID = "psf__requests-twin"
	own := InstanceSpec{InstanceID: "own", Repo: "o/n", BaseCommit: "1", Dockerfile: "FROM scratch\n"}
	p := NewPlan(append(specs, twin, own))
	if b, e, i := len(p.Keys(Base)), len(p.Keys(Env)), len(p.Keys(Instance)); b != 1 || e != 1 || i != 21 {
		t.Errorf("%d bases, %d envs, %d instances; want 1, 1, 21", b, e, i)
	}
	if twin.Key() != specs[3].Key() {
		t.Error("two rows of one commit and steps have two images")
	}
	if !slices.IsSorted(p.Keys(Instance)) {
		t.Error("keys are not sorted")
	}
	if p := NewPlan(nil); len(p.Keys(Base))+len(p.Keys(Env))+len(p.Keys(Instance)) != 0 {
		t.Error("a plan for nothing has layers")
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{
		"debian:bookworm": {"debian", "bookworm"}, "image:registry.example:5000/a/b:tag": {"image", "registry.example:5000/a/b:tag"},
		"oci-layout:./dir@tag": {"oci-layout", "./dir@tag"}, "rootfs:/a b/c.tar": {"rootfs", "/a b/c.tar"},
	} {
		got, err := ParseSource(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, say := range map[string]string{
		"": "want debian:SUITE", "debian": "want debian:SUITE", "debian:": "want debian:SUITE", "debian:potato": "known are bullseye, bookworm, trixie",
		"docker:x": "want debian:SUITE", "image:": "want debian:SUITE", "bookworm": "want debian:SUITE",
	} {
		if _, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestShellQuote(t *testing.T) {
	if got := ShellQuote(`a'b "$c"`); got != `'a'\''b "$c"'` {
		t.Error(got)
	}
}
