package html

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evalrun/evalrun/reports"
)

// flattened lists all fields of a record by their names in JSON, so that one that
// is added shows without anybody thinking of it. What JSON would leave out, or has
// nothing in it, is not listed.
func flattened(record any, without ...string) []pair {
	v := reflect.Indirect(reflect.ValueOf(record))
	var out []pair
	for _, f := range fieldsOf(v.Type()) {
		if slices.Contains(without, f.name) || f.empty(v) {
			continue
		}
		if text := spelt(v.Field(f.index)); text != "" {
			out = append(out, pair{f.shown, reports.SafeText(text)})
		}
	}
	return out
}

// field is one of a struct, as its tag for JSON names it.
type field struct {
	index        int
	name, shown  string
	emptys, zero bool // left out when empty, when zero
}

func (f *field) empty(of reflect.Value) bool {
	v := of.Field(f.index)
	if f.zero && v.IsZero() {
		return true
	}
	if !f.emptys {
		return false
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

var fields sync.Map // reflect.Type -> []field

// fieldsOf are the fields of a struct, by name.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fields.Load(t); ok {
		return known.([]field)
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out = append(out, field{index: i, name: name, shown: reports.SafeText(strings.ReplaceAll(name, "_", " ")),
			emptys: slices.Contains(strings.Split(options, ","), "omitempty"), zero: slices.Contains(strings.Split(options, ","), "omitzero")})
	}
	slices.SortFunc(out, func(a, b field) int { return strings.Compare(a.name, b.name) })
	fields.Store(t, out)
	return out
}

// spelt spells a value for people: a text without quotes, an object as its fields.
func spelt(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return spelt(v.Elem())
	case reflect.String:
		return v.String()
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = spelt(v.Index(i))
		}
		return strings.Join(parts, "; ")
	case reflect.Map:
		var parts []string
		for _, key := range v.MapKeys() {
			if text := spelt(v.MapIndex(key)); text != "" {
				parts = append(parts, strings.ReplaceAll(fmt.Sprint(key), "_", " ")+" "+text)
			}
		}
		slices.Sort(parts)
		return strings.Join(parts, ", ")
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			return at.Format(time.RFC3339Nano)
		}
		var parts []string
		for _, f := range fieldsOf(v.Type()) {
			if f.empty(v) {
				continue
			}
			if text := spelt(v.Field(f.index)); text != "" {
				parts = append(parts, f.shown+" "+text)
			}
		}
		return strings.Join(parts, ", ")
	}
	text, err := json.Marshal(v.Interface()) // a number, true or false
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return string(text)
}
