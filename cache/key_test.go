package cache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// recorder is a hash that keeps what it is fed, so that a test can read the
// encoding back.
type recorder struct{ bytes.Buffer }

func (r *recorder) Sum(b []byte) []byte { return append(b, r.Bytes()...) }
func (r *recorder) Size() int           { return r.Len() }
func (r *recorder) BlockSize() int      { return 1 }

// field is one call on a Key.
type field struct {
	kind  byte
	label string
	value any
}

func (f field) addTo(k *Key) {
	switch v := f.value.(type) {
	case string:
		k.String(f.label, v)
	case []string:
		k.Strings(f.label, v)
	case int64:
		k.Int(f.label, v)
	case bool:
		k.Bool(f.label, v)
	}
}

// decode reads fields back from the bytes that are hashed. That it can be
// written at all is the property: the encoding loses nothing.
func decode(r *bytes.Reader) ([]field, error) {
	number := func() (n uint64, err error) {
		err = binary.Read(r, binary.BigEndian, &n)
		return n, err
	}
	text := func() (string, error) {
		n, err := number()
		if err != nil || n > uint64(r.Len()) {
			return "", fmt.Errorf("length %d of %d left, %v", n, r.Len(), err)
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return string(b), err
	}
	texts := func() (list []string, err error) {
		n, err := number()
		for i := uint64(0); i < n && err == nil; i++ {
			var s string
			s, err = text()
			list = append(list, s)
		}
		return list, err
	}
	var fields []field
	for r.Len() > 0 {
		kind, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		f := field{kind: kind}
		if f.label, err = text(); err != nil {
			return nil, err
		}
		switch kind {
		case kindString:
			f.value, err = text()
		case kindStrings:
			f.value, err = texts()
		case kindInt:
			var n uint64
			n, err = number()
			f.value = int64(n)
		case kindBool:
			var b byte
			b, err = r.ReadByte()
			f.value = b == 1
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.label, err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func randomFields(r *rand.Rand) []field {
	text := func() string {
		// Few different letters, and those the encoding itself uses, make
		// accidental collisions likely if there are any.
		const letters = "a\x00\x01\x02\x08"
		b := make([]byte, r.IntN(4))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	fields := make([]field, r.IntN(5))
	for i := range fields {
		f := field{label: text()}
		switch r.IntN(4) {
		case 0:
			f.kind, f.value = kindString, text()
		case 1:
			var list []string
			for range r.IntN(3) {
				list = append(list, text())
			}
			f.kind, f.value = kindStrings, list
		case 2:
			f.kind, f.value = kindInt, r.Int64N(5)-2
		case 3:
			f.kind, f.value = kindBool, r.IntN(2) == 0
		}
		fields[i] = f
	}
	return fields
}

func TestKeyEncodingCanBeReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		want := append([]field{{kind: kindSchema, label: "s/v1"}}, randomFields(r)...)
		rec := &recorder{}
		k := &Key{h: rec}
		k.field(kindSchema, "s/v1")
		for _, f := range want[1:] {
			f.addTo(k)
		}
		got, err := decode(bytes.NewReader(rec.Bytes()))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("encoding of\n%#v\nreads back as\n%#v, %v", want, got, err)
		}
	}
}

func TestKeysThatMustDiffer(t *testing.T) {
	keys := map[string]*Key{
		"nothing":                NewKey("v1"),
		"other schema":           NewKey("v2"),
		"ab, c":                  NewKey("v1").String("x", "ab").String("y", "c"),
		"a, bc":                  NewKey("v1").String("x", "a").String("y", "bc"),
		"swapped":                NewKey("v1").String("y", "c").String("x", "ab"),
		"label takes from value": NewKey("v1").String("xa", "b").String("y", "c"),
		"empty text":             NewKey("v1").String("x", ""),
		"empty list":             NewKey("v1").Strings("x", nil),
		"list of an empty text":  NewKey("v1").Strings("x", []string{""}),
		"list of two":            NewKey("v1").Strings("x", []string{"a", "b"}),
		"list of one":            NewKey("v1").Strings("x", []string{"ab"}),
		"list turned round":      NewKey("v1").Strings("x", []string{"b", "a"}),
		"two texts of one label": NewKey("v1").String("x", "a").String("x", "b"),
		"text":                   NewKey("v1").String("x", "ab"),
		"one":                    NewKey("v1").Int("x", 1),
		"minus one":              NewKey("v1").Int("x", -1),
		"zero":                   NewKey("v1").Int("x", 0),
		"yes":                    NewKey("v1").Bool("x", true),
		"no":                     NewKey("v1").Bool("x", false),
	}
	seen := map[string]string{}
	for name, k := range keys {
		sum := k.Sum()
		if other, dup := seen[sum]; dup {
			t.Errorf("%q and %q have one key", name, other)
		}
		seen[sum] = name
	}
}

// The sums name what lies on users' disks. A change here throws all of it away
// and must be meant.
func TestKeyGolden(t *testing.T) {
	tests := []struct {
		key  *Key
		want string
	}{
		{NewKey("env/v1"), "245bd95227ae7508273981f902f960160614a94076d78c31502747ca6be41c88"},
		{NewKey("env/v1").String("python", "3.9").Strings("apt", []string{"git", "gcc"}).
			Int("epoch", -3).Bool("nearest", true), "aecceeee53b6965007d4ed39e064911053c3d2622eb3257b08f10f2b8c38dead"},
	}
	for i, tt := range tests {
		if got := tt.key.Sum(); got != tt.want {
			t.Errorf("key %d = %s, want %s", i, got, tt.want)
		}
	}
}

func TestKeySumDoesNotEndTheKey(t *testing.T) {
	k := NewKey("v1").String("a", "b")
	first := k.Sum()
	if again := k.Sum(); again != first {
		t.Errorf("second Sum = %s, first %s", again, first)
	}
	if got, want := k.Int("n", 1).Sum(), NewKey("v1").String("a", "b").Int("n", 1).Sum(); got != want {
		t.Errorf("Sum in between changed the key: %s, want %s", got, want)
	}
	if len(first) != 64 || strings.ToLower(first) != first {
		t.Errorf("Sum %q is not 64 lower-case hexadecimal digits", first)
	}
}

func FuzzKeyBoundaries(f *testing.F) {
	f.Add("label", "value", 2)
	f.Add("", "\x00\x00\x00\x00\x00\x00\x00\x01a", 8)
	f.Fuzz(func(t *testing.T, a, b string, cut int) {
		whole := a + b
		if cut < 0 || cut > len(whole) || cut == len(a) {
			t.Skip()
		}
		c, d := whole[:cut], whole[cut:]
		if NewKey("v1").String(a, b).Sum() == NewKey("v1").String(c, d).Sum() {
			t.Errorf("label %q + text %q has the key of %q + %q", a, b, c, d)
		}
		if NewKey("v1").Strings("l", []string{a, b}).Sum() == NewKey("v1").Strings("l", []string{c, d}).Sum() {
			t.Errorf("list %q, %q has the key of %q, %q", a, b, c, d)
		}
	})
}
