package patch

// TestFiles returns the paths a test patch touches: those that exist before it,
// to be brought back to the base commit, and those it makes, to be deleted. A
// rename has one of each; the source of a copy is among the first, since the
// copy is made from it. Submodules are in neither: no file of theirs can be
// restored.
func TestFiles(testPatch string) (reset, created []string) {
	text := testPatch
	if p, _ := Prepare(testPatch); p.Text != "" {
		text = p.Text
	}
	parsed, _ := Parse(text)
	before, after := newSet(), newSet()
	for _, f := range parsed.Files {
		if f.Submodule {
			continue
		}
		// A file made anew by one part may be changed by a later one.
		if !after.has[f.Old] {
			before.add(f.Old)
		}
		if !before.has[f.New] {
			after.add(f.New)
		}
	}
	return before.list, after.list
}
