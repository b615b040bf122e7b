package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

type note struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// numbers opens a journal and returns what its events say.
func numbers(t *testing.T, path string) (*Journal, Scan, []int) {
	t.Helper()
	var found []int
	j, scan, err := Open(path, func(ev Event) error {
		var n note
		if err := json.Unmarshal(ev.Data, &n); err != nil {
			return err
		}
		found = append(found, n.N)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, scan, found
}

func write(t *testing.T, path string, from, to int) {
	t.Helper()
	j, _, _ := numbers(t, path)
	for i := from; i <= to; i++ {
		if _, err := j.Append("note", note{N: i, Text: "<a>&\u2028\n"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func upTo(n int) []int {
	var list []int
	for i := 1; i <= n; i++ {
		list = append(list, i)
	}
	return list
}

// Cut off at whatever byte, a journal has the events that are whole, takes new
// ones after them, and has all of those the next time.
func TestCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	write(t, whole, 1, 4)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(data) + 1 {
		path := filepath.Join(dir, "cut")
		if err := os.WriteFile(path, data[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		n := bytes.Count(data[:cut], []byte("\n"))
		_, scan, found := numbers(t, path)
		if fmt.Sprint(found) != fmt.Sprint(upTo(n)) || len(scan.Damage) != 0 {
			t.Fatalf("cut at %d of %d: events %v, want 1 to %d; damage %v", cut, len(data), found, n, scan.Damage)
		}
		write(t, path, n+1, 6)
		if _, scan, found = numbers(t, path); fmt.Sprint(found) != fmt.Sprint(upTo(6)) || scan.Torn != 0 || len(scan.Damage) != 0 {
			t.Fatalf("cut at %d, and written on: events %v, %+v", cut, found, scan)
		}
	}
}

// Whatever byte is another, no event is: those with the damage are missing, the
// others are there, and the damage is told unless it is at the end.
func TestOneWrongByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	write(t, path, 1, 4)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		for _, b := range []byte{0, '\n', data[at] ^ 1} {
			bad := bytes.Clone(data)
			if bad[at] = b; bytes.Equal(bad, data) {
				continue
			}
			var found []uint64
			scan, err := Read(bytes.NewReader(bad), func(ev Event) error {
				var n note
				if err := json.Unmarshal(ev.Data, &n); err != nil || n.N != int(ev.Seq) || ev.Kind != "note" {
					t.Errorf("byte %d is %q: event %+v, %v", at, b, ev, err)
				}
				found = append(found, ev.Seq)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			hit := uint64(bytes.Count(data[:at], []byte("\n"))) + 1
			for _, seq := range found {
				// A newline that is gone takes the next event with it.
				if seq == hit || data[at] == '\n' && seq == hit+1 {
					t.Errorf("byte %d is %q: event %d is still there", at, b, seq)
				}
			}
			lost := 4 - len(found)
			if lost < 1 || lost > 2 || lost == 2 && data[at] != '\n' {
				t.Errorf("byte %d is %q: %d events are missing", at, b, lost)
			}
			if len(found) > 0 && found[len(found)-1] == 4 && len(scan.Damage) != 1 {
				t.Errorf("byte %d is %q: damage %v", at, b, scan.Damage)
			}
		}
	}
}

func TestOrderOfEvents(t *testing.T) {
	line := func(seq uint64) string {
		text, err := encode(Event{Seq: seq, Kind: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := []struct {
		name   string
		text   string
		want   []uint64
		damage int
		torn   bool
	}{
		{"nothing", "", nil, 0, false},
		{"in order", line(1) + line(2), []uint64{1, 2}, 0, false},
		{"one missing", line(1) + line(3), []uint64{1, 3}, 1, false},
		{"the first missing", line(2), []uint64{2}, 1, false},
		{"one twice", line(1) + line(2) + line(2) + line(3), []uint64{1, 2, 3}, 1, false},
		{"turned round", line(1) + line(3) + line(2), []uint64{1, 3}, 2, true},
		{"foreign lines", "hello\n\n" + line(1), []uint64{1}, 1, false},
		{"zeros at the end", line(1) + "\x00\x00\x00", []uint64{1}, 0, true},
		{"number 0", line(0) + line(1), []uint64{1}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var found []uint64
			scan, err := Read(bytes.NewReader([]byte(tt.text)), func(ev Event) error {
				found = append(found, ev.Seq)
				return nil
			})
			if err != nil || fmt.Sprint(found) != fmt.Sprint(tt.want) || len(scan.Damage) != tt.damage || (scan.Torn > 0) != tt.torn {
				t.Errorf("events %v, %+v, %v; want %v, %d damages, torn %v", found, scan, err, tt.want, tt.damage, tt.torn)
			}
		})
	}
}

// Many append at once: all that returned is there, each once, and in the order of
// each writer.
func TestAppendTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _, err := Open(path, func(Event) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 20, 30
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				data := note{N: w*each + i}
				if i%3 == 0 {
					if err := j.Note("note", data); err != nil {
						t.Error(err)
					}
					continue
				}
				place, err := j.Append("note", data)
				if err != nil {
					t.Error(err)
				}
				if ev, err := j.ReadAt(place); err != nil || string(ev.Data) != fmt.Sprintf(`{"n":%d}`, data.N) {
					t.Errorf("read back: %s, %v", ev.Data, err)
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append("note", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	_, scan, found := numbers(t, path)
	if len(found) != writers*each || scan.Last != writers*each || len(scan.Damage) > 0 {
		t.Fatalf("%d events, %+v", len(found), scan)
	}
	last := map[int]int{}
	for _, n := range found {
		w, i := n/each, n%each
		if i != last[w] {
			t.Fatalf("writer %d: event %d where %d was to come", w, i, last[w])
		}
		last[w]++
	}
}

func TestReadAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	write(t, path, 1, 3)
	var places []Place
	j, _, err := Open(path, func(ev Event) error { places = append(places, ev.Place); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i, p := range places {
		ev, err := j.ReadAt(p)
		if err != nil || ev.Seq != uint64(i+1) {
			t.Errorf("event %d: %+v, %v", i+1, ev, err)
		}
	}
	if _, err := j.ReadAt(Place{places[1].Offset + 1, places[1].Size}); err == nil {
		t.Error("an event was read from where there is none")
	}
}

// A commit that fails is the end: nothing later may look as if it were kept, and
// what was kept before stays readable.
func TestFailedCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	write(t, path, 1, 2)
	j, _, _ := numbers(t, path)
	j.f.Close() // as good as a disk that is gone
	if _, err := j.Append("note", note{N: 3}); err == nil {
		t.Fatal("the event was appended to a closed file")
	}
	if _, err := j.Append("note", note{N: 4}); err == nil {
		t.Error("the journal takes events after one that failed")
	}
	if _, _, found := numbers(t, path); fmt.Sprint(found) != "[1 2]" {
		t.Errorf("events %v", found)
	}
}

// FuzzRead: no input makes the reader fail or give an event whose checksum does
// not fit; what Open makes of it takes events and gives them back.
func FuzzRead(f *testing.F) {
	one, err := encode(Event{Seq: 1, Kind: "k", Data: json.RawMessage(`{"a":1}`)})
	if err != nil {
		f.Fatal(err)
	}
	two, _ := encode(Event{Seq: 2, Kind: "k"})
	f.Add([]byte(nil))
	f.Add(append(bytes.Clone(one), two...))
	f.Add(append(bytes.Clone(one), two[:len(two)-4]...))
	f.Add(append([]byte("{}\n\n\x00"), two...))
	f.Fuzz(func(t *testing.T, data []byte) {
		count := 0
		scan, err := Read(bytes.NewReader(data), func(ev Event) error {
			count++
			line := data[ev.Place.Offset : ev.Place.Offset+int64(ev.Place.Size)]
			if again, reason := parse(line); reason != "" || again.Seq != ev.Seq {
				t.Errorf("%q: %s", line, reason)
			}
			return nil
		})
		if err != nil || scan.End+scan.Torn != int64(len(data)) {
			t.Fatalf("%+v, %v", scan, err)
		}
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		j, _, err := Open(path, func(Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append("more", note{N: rand.IntN(10)}); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		after := 0
		kind := ""
		j, again, err := Open(path, func(ev Event) error { after++; kind = ev.Kind; return nil })
		if err != nil || after != count+1 || kind != "more" || again.Torn != 0 {
			t.Fatalf("%d events and one more are %d, the last a %q; %+v, %v", count, after, kind, again, err)
		}
		j.Close()
	})
}

// BenchmarkAppend: what an event costs a run with so many workers.
func BenchmarkAppend(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("workers-%d", workers), func(b *testing.B) {
			j, _, err := Open(filepath.Join(b.TempDir(), "j"), func(Event) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			data := note{Text: string(bytes.Repeat([]byte("test_name "), 700))}
			b.SetParallelism(max(1, workers/2))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := j.Append("note", data); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkRead: a journal of 10,000 attempts of 7 KB.
func BenchmarkRead(b *testing.B) {
	var buf bytes.Buffer
	data, _ := json.Marshal(note{Text: string(bytes.Repeat([]byte("test_name "), 700))})
	for i := range uint64(10000) {
		line, err := encode(Event{Seq: i + 1, Kind: "k", Data: data})
		if err != nil {
			b.Fatal(err)
		}
		buf.Write(line)
	}
	b.SetBytes(int64(buf.Len()))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(buf.Bytes()), func(Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// A journal that was replaced by something else is damage, and told; what a crash leaves
// at the end is none.
func TestReplaced(t *testing.T) {
	random := make([]byte, 5000)
	for i := range random {
		random[i] = byte(i*i>>3) | 1
	}
	for name, c := range map[string]struct {
		data []byte
		want bool
	}{
		"nothing":               {nil, false},
		"bytes without a line":  {bytes.ReplaceAll(random, []byte("\n"), []byte("x")), true},
		"bytes of many lines":   {random, true},
		"lines of another kind": {[]byte("{\"a\":1}\n{\"b\":2}\n"), true},
		"the beginning of one":  {[]byte(crcHead + "0123"), false},
		"a few bytes of it":     {[]byte("{"), false},
		"zeros":                 {make([]byte, 4096), false},
	} {
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, c.data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, scan, found := numbers(t, path); len(found) != 0 || len(scan.Damage) > 0 != c.want {
			t.Errorf("%s: events %v, damage %v", name, found, scan.Damage)
		}
		write(t, path, 1, 2)
		if _, scan, found := numbers(t, path); len(found) != 2 || len(scan.Damage) != 0 {
			t.Errorf("%s: written on: events %v, damage %v", name, found, scan.Damage)
		}
	}
}

// What is no file is refused at once: a pipe, a folder, a device.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, dir, "/dev/null"} {
		if j, _, err := Open(path, func(Event) error { return nil }); err == nil {
			t.Errorf("%s is opened", path)
			j.Close()
		}
		if f, err := OpenFile(path); err == nil {
			t.Errorf("%s is opened for reading", path)
			f.Close()
		}
	}
}
