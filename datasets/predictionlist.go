package datasets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
)

// PredictionList is predictions of one model, in their order. With a Spool all that is
// in memory of one is where it is.
type PredictionList struct {
	model  string
	all    []Prediction // without a spool
	spool  *Spool
	places []uint32 // among the spool's entries
}

func newPredictionList(model string, spool *Spool) PredictionList {
	return PredictionList{model: model, spool: spool}
}

// Len is how many there are.
func (l *PredictionList) Len() int { return len(l.all) + len(l.places) }

// At gives one of them; the error is one of reading it again.
func (l *PredictionList) At(i int) (*Prediction, error) {
	if l.spool == nil {
		return &l.all[i], nil
	}
	p, err := l.spool.prediction(l.places[i])
	if err != nil {
		return nil, fmt.Errorf("prediction %d of model %s: what was put aside of it cannot be read: %w", i+1, l.model, err)
	}
	p.Model = l.model
	return p, nil
}

// All gives each with its place, and ends with the first error.
func (l *PredictionList) All() iter.Seq2[*Prediction, error] {
	return func(yield func(*Prediction, error) bool) {
		for i := range l.Len() {
			if p, err := l.At(i); !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Append adds those of another list of the model, which was read with the same spool.
func (l *PredictionList) Append(more PredictionList) {
	l.all, l.places = append(l.all, more.all...), append(l.places, more.places...)
}

func (l *PredictionList) add(p Prediction, at place) error {
	if l.spool == nil {
		l.all = append(l.all, p)
		return nil
	}
	place, err := l.spool.keep(&p, at)
	l.places = append(l.places, place)
	return err
}

func (l *PredictionList) set(i int, p Prediction, at place) error {
	if l.spool == nil {
		l.all[i] = p
		return nil
	}
	place, err := l.spool.keep(&p, at)
	l.places[i] = place
	return err
}

// names are numbered, so that each is in memory once.
type names struct {
	list    []string
	numbers map[string]uint32
}

func (n *names) number(name string) uint32 {
	i, ok := n.numbers[name]
	if !ok {
		if n.numbers == nil {
			n.numbers = map[string]uint32{}
		}
		i = uint32(len(n.list))
		n.list, n.numbers[name] = append(n.list, name), i
	}
	return i
}

// An entry of a spool is what is known of a prediction, all but its model, in as many
// bytes for each.
const entrySize = 4 + 4 + 8 + 8 + 4 + 4 + len(stored{}.sum) + 1

// What an entry says of the patch.
const (
	hasPatch byte = 1 << iota // it is not null
	hasText                   // nor ""
	isQuoted
	isBlank
	isSpooled
)

// keep takes a prediction out of memory and says as which entry.
func (s *Spool) keep(p *Prediction, at place) (uint32, error) {
	var kept stored
	flags := byte(0)
	if p.Patch != nil {
		flags = hasPatch
	}
	if p.Patch != nil && *p.Patch != "" {
		k, err := s.store(p, at)
		if err != nil {
			return 0, err
		}
		kept = *k
		flags |= hasText | flagIf(k.quoted, isQuoted) | flagIf(k.empty, isBlank) | flagIf(k.texts != nil, isSpooled)
	}
	s.mu.Lock()
	instance, file := s.names.number(p.InstanceID), s.names.number(p.Source.File)
	s.mu.Unlock()
	data := make([]byte, 0, entrySize)
	data = binary.LittleEndian.AppendUint32(data, instance)
	data = binary.LittleEndian.AppendUint32(data, file)
	data = binary.LittleEndian.AppendUint64(data, uint64(p.Source.Line))
	data = binary.LittleEndian.AppendUint64(data, uint64(kept.offset))
	data = binary.LittleEndian.AppendUint32(data, kept.length)
	data = binary.LittleEndian.AppendUint32(data, kept.size)
	data = append(append(data, kept.sum[:]...), flags)
	begin, err := s.entries.add(data)
	if begin/int64(entrySize) > math.MaxUint32 {
		return 0, errors.New("there are more predictions than can be counted")
	}
	return uint32(begin / int64(entrySize)), err
}

func flagIf(is bool, flag byte) byte {
	if is {
		return flag
	}
	return 0
}

// prediction reads an entry.
func (s *Spool) prediction(entry uint32) (*Prediction, error) {
	var data [entrySize]byte
	if err := s.entries.read(data[:], int64(entry)*int64(entrySize)); err != nil {
		return nil, err
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(data[at:]) }
	s.mu.Lock()
	p := &Prediction{InstanceID: s.names.list[number(0)], Source: Position{File: s.names.list[number(4)], Line: int(binary.LittleEndian.Uint64(data[8:]))}}
	s.mu.Unlock()
	switch flags := data[entrySize-1]; {
	case flags&hasText != 0:
		p.stored = &stored{
			offset: int64(binary.LittleEndian.Uint64(data[16:])), length: number(24), size: number(28), sum: [len(stored{}.sum)]byte(data[32:]),
			quoted: flags&isQuoted != 0, empty: flags&isBlank != 0,
		}
		if flags&isSpooled != 0 {
			p.stored.texts = &s.texts
		}
	case flags&hasPatch != 0:
		p.Patch = &nothing
	}
	return p, nil
}

// nothing is the patch of all that are "".
var nothing string
