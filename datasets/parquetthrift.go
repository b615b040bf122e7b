package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
)

// thriftScan goes through a structure in Thrift's compact form without building
// anything. The Parquet library makes room for whatever length a list or a string
// claims; here none may claim more than there is.
type thriftScan struct {
	r      *bufio.Reader
	left   int64 // bytes it may still read
	things int   // elements of lists it may still have
	// number is told of every whole number in the structure and in those it holds
	// itself, by the fields that lead to it; a truth is 1 or 0.
	number func(fields []int16, v int64)
}

var errThrift = errors.New("its structures are damaged")

func (s *thriftScan) byte() (byte, error) {
	if s.left--; s.left < 0 {
		return 0, errThrift
	}
	return s.r.ReadByte()
}

func (s *thriftScan) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b, err := s.byte()
		if err != nil {
			return 0, err
		}
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			return v, nil
		}
	}
	return 0, errThrift
}

func (s *thriftScan) skip(n uint64) error {
	if s.left < 0 || n > uint64(s.left) {
		return errThrift
	}
	s.left -= int64(n)
	_, err := io.CopyN(io.Discard, s.r, int64(n))
	return err
}

// Types of the compact form.
const (
	thriftTrue, thriftFalse, thriftByte            = 1, 2, 3
	thriftI64, thriftDouble, thriftBinary          = 6, 7, 8
	thriftList, thriftSet, thriftMap, thriftStruct = 9, 10, 11, 12
	thriftUUID                                     = 13
	thriftDepth                                    = 32
)

// structure reads fields up to the end of one structure.
func (s *thriftScan) structure(fields []int16) error {
	if len(fields) > thriftDepth {
		return errThrift
	}
	id := int16(0)
	for {
		head, err := s.byte()
		if err != nil {
			return err
		}
		kind := head & 0xf
		switch {
		case kind == 0:
			return nil
		case head>>4 != 0:
			id += int16(head >> 4)
		default:
			v, err := s.varint()
			if err != nil {
				return err
			}
			id = int16(zigzag(v))
		}
		if kind == thriftTrue || kind == thriftFalse {
			s.say(append(fields, id), int64(thriftFalse-kind))
			continue
		}
		if err := s.value(kind, append(slices.Clip(fields), id)); err != nil {
			return err
		}
	}
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func (s *thriftScan) say(fields []int16, v int64) {
	if s.number != nil {
		s.number(fields, v)
	}
}

func (s *thriftScan) value(kind byte, fields []int16) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		_, err := s.byte()
		return err
	case 4, 5, thriftI64:
		v, err := s.varint()
		s.say(fields, zigzag(v))
		return err
	case thriftDouble:
		return s.skip(8)
	case thriftUUID:
		return s.skip(16)
	case thriftBinary:
		n, err := s.varint()
		if err != nil {
			return err
		}
		return s.skip(n)
	case thriftList, thriftSet:
		return s.list(fields)
	case thriftStruct:
		return s.structure(fields)
	}
	return fmt.Errorf("%w: type %d", errThrift, kind) // no structure of Parquet has a map
}

func (s *thriftScan) list(fields []int16) error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = s.varint(); err != nil {
			return err
		}
	}
	if n > uint64(max(s.left, 0)) || n > uint64(s.things) {
		return fmt.Errorf("%w: a list of %d", errThrift, n)
	}
	s.things -= int(n)
	inner := *s
	inner.number = nil
	for range n {
		if err := inner.value(head&0xf, fields); err != nil {
			return err
		}
	}
	s.left, s.things = inner.left, inner.things
	return nil
}
