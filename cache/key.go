package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// Key builds the SHA-256 name of something made from known inputs. Each field
// is written with its kind, label and length, so two different sequences of
// calls never hash the same bytes: "ab"+"c" is not "a"+"bc", an empty list is
// not an empty string, a missing field is not an empty one.
//
// The order of calls counts. The sums are part of the format on disk: when the
// meaning of a key changes, its schema name must change too.
type Key struct{ h hash.Hash }

// The kinds of fields. Their values are hashed; do not renumber.
const (
	kindSchema byte = iota + 1
	kindString
	kindStrings
	_
	kindInt
	kindBool
)

// NewKey starts a key. The schema, for example "env/v1", says what is keyed
// and in which version of the recipe.
func NewKey(schema string) *Key {
	k := &Key{h: sha256.New()}
	k.field(kindSchema, schema)
	return k
}

// String adds a text.
func (k *Key) String(label, value string) *Key {
	k.field(kindString, label)
	k.text(value)
	return k
}

// Strings adds a list; its order counts.
func (k *Key) Strings(label string, values []string) *Key {
	k.field(kindStrings, label)
	k.number(uint64(len(values)))
	for _, v := range values {
		k.text(v)
	}
	return k
}

// Int adds a whole number.
func (k *Key) Int(label string, value int64) *Key {
	k.field(kindInt, label)
	k.number(uint64(value))
	return k
}

// Bool adds a truth value.
func (k *Key) Bool(label string, value bool) *Key {
	k.field(kindBool, label)
	var b byte
	if value {
		b = 1
	}
	k.h.Write([]byte{b})
	return k
}

// Sum returns the key so far as 64 lower-case hexadecimal digits.
func (k *Key) Sum() string { return hex.EncodeToString(k.h.Sum(nil)) }

func (k *Key) field(kind byte, label string) {
	k.h.Write([]byte{kind})
	k.text(label)
}

func (k *Key) text(s string) {
	k.number(uint64(len(s)))
	io.WriteString(k.h, s)
}

func (k *Key) number(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	k.h.Write(b[:])
}
