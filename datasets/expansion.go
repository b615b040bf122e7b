package datasets

import (
	"fmt"
	"io"
)

// A file may hold this many times its own size, once that is past freeExpansion.
// Rows and patches shrink to a tenth or a thirtieth; a file that is made to fill the
// memory, to a thousandth and less.
const (
	freeExpansion = 64 << 20
	maxExpansion  = 200
)

// mayExpandTo is how much may come out of a file of a size.
func mayExpandTo(size int64) int64 { return max(freeExpansion, maxExpansion*size) }

func expandsTooMuch() error {
	return &fault{fmt.Sprintf("holds more than %d times its own size: it is made to use up memory, or damaged", maxExpansion), "write it without compression, if it is honest"}
}

// counted counts what is read of a compressed file.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// expanding reads decompressed text until it is too much for what was read of the
// compressed one.
type expanding struct {
	r    io.Reader
	from *counted
	n    int64
}

func (e *expanding) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.n += int64(n); e.n > mayExpandTo(e.from.n) {
		return 0, expandsTooMuch()
	}
	return n, err
}
