package patch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prepared is a patch ready to be tried, with everything to be said about it.
type Prepared struct {
	Original string    // as given, byte for byte
	Text     string    // with every repair
	Repairs  []string  // what Text differs in, in words; empty when it does not
	Variants []Variant // the texts to try, in order

	Files          []File // of Text
	Paths          []string
	Added, Deleted int
	Bytes          int       // of Original
	Problems       []Problem // of Original, all but the unsafe ones
	Unsafe         []Problem // reasons why it must not be applied

	watch   []string // every path a command might write
	created []string // paths that do not exist before the patch
}

// Variant is one text of the patch that is given to the commands.
type Variant struct {
	Text    string
	Repairs []string // how it differs from the original; empty for the original
}

// ErrEmpty and ErrNoDiff say that there is nothing to apply.
var (
	ErrEmpty  = errors.New("the patch is empty")
	ErrNoDiff = errors.New("the patch holds no diff")
)

// UnsafeError says that a patch must not be applied, with every reason.
type UnsafeError struct{ Problems []Problem }

func (e *UnsafeError) Error() string {
	n := len(e.Problems)
	msg := "the patch reaches out of the tree: " + e.Problems[0].String()
	if n > 1 {
		msg += fmt.Sprintf(" (and %d more)", n-1)
	}
	return msg
}

// maxRounds bounds how often the repairs are repeated until nothing changes.
const maxRounds = 4

// Prepare checks a patch and mends what can be mended. It returns an error when
// the patch must not be given to a sandbox: ErrEmpty, ErrNoDiff or an
// *UnsafeError. What it returns besides is complete all the same.
//
// The original always comes first among the variants, since other harnesses try
// nothing else and a verdict should not depend on a repair that was not needed;
// only a stripped end is put back there. (Without its last blank line git takes
// no binary data, and drops such a file in silence when others come before it.)
// The mended text is the next variant, when it differs in more than the
// text around the diff, which every tool skips. A patch whose lines all end in
// CRLF has a third: only its own header lines mended, for files that really
// have CRLF.
//
// Wrong hunk counts are mended here rather than by git apply --recount: the
// result can be shown and checked, it serves patch(1) as well, and --recount
// takes blank lines between files for context.
func Prepare(text string) (Prepared, error) {
	p := Prepared{Original: text, Bytes: len(text)}
	if strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) == "" {
		p.Text = text
		p.Problems = []Problem{{Reason: ErrEmpty.Error()}}
		return p, ErrEmpty
	}
	parsed, problems := Parse(text)
	fixed, around := mend(text)
	p.Text = fixed.text
	p.Repairs = append(fixed.repairs, around...)

	end := mended{text: text}
	end.ending()
	p.Variants = []Variant{{Text: end.text, Repairs: end.repairs}}
	if slices.ContainsFunc(fixed.repairs, func(r string) bool { return !slices.Contains(end.repairs, r) }) {
		p.Variants = append(p.Variants, Variant{Text: fixed.text, Repairs: p.Repairs})
	}
	if slices.Contains(fixed.repairs, crlfRepair) {
		headers, _ := mend(headersToLF(text))
		p.Variants = append(p.Variants, Variant{
			Text: headers.text, Repairs: append([]string{crlfHeaderRepair}, headers.repairs...)})
	}
	p.collect(parsed, problems)
	switch {
	case len(p.Unsafe) > 0:
		return p, &UnsafeError{Problems: p.Unsafe}
	case len(p.Files) == 0:
		return p, ErrNoDiff
	}
	return p, nil
}

// collect gathers files, paths and problems. Whether a patch is safe is asked of
// every variant, since each may be read differently.
func (p *Prepared) collect(original *Patch, problems []Problem) {
	for _, pr := range problems {
		if pr.Unsafe {
			p.Unsafe = append(p.Unsafe, pr)
		} else {
			p.Problems = append(p.Problems, pr)
		}
	}
	watch, created := newSet(), newSet()
	read := func(text string) *Patch {
		parsed := original
		if text != p.Original {
			parsed, problems = Parse(text)
		}
		for _, pr := range problems {
			if pr.Unsafe && !slices.ContainsFunc(p.Unsafe, func(u Problem) bool { return u.Path == pr.Path && u.Reason == pr.Reason }) {
				p.Unsafe = append(p.Unsafe, pr)
			}
		}
		watch.add(parsed.watch...)
		for _, f := range parsed.Files {
			if (f.Kind == Create || f.Kind == Rename || f.Kind == Copy) && pathReason(f.New) == "" {
				created.add(f.New)
			}
		}
		return parsed
	}
	parsed := read(p.Text)
	p.Files, p.Paths, p.Added, p.Deleted = parsed.Files, parsed.Paths, parsed.Added, parsed.Deleted
	for _, v := range p.Variants {
		if v.Text != p.Text {
			read(v.Text)
		}
	}
	p.watch, p.created = watch.list, created.list
}
