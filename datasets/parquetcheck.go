package datasets

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	pqformat "github.com/parquet-go/parquet-go/format"
)

// oldDictionary is how writers before format 2 mark dictionary pages, and what points
// into them.
const oldDictionary = pqformat.Encoding(2)

// What the structures at the end of a Parquet file may have.
const (
	maxFooter       = 32 << 20
	maxFooterThings = 1 << 20
	maxPageHeader   = 8 << 20
)

// checkFooter goes through the structures at the end of a file, before the library
// makes room for whatever they claim to be.
func checkFooter(f io.ReaderAt, size int64) error {
	if size < 12 {
		return errors.New("it has only " + fmt.Sprint(size) + " bytes")
	}
	var end [8]byte
	if _, err := f.ReadAt(end[:], size-8); err != nil {
		return err
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case string(end[4:]) != "PAR1":
		return errors.New("it does not end with PAR1")
	case n > size-12 || n > maxFooter:
		return fmt.Errorf("its structures claim %d bytes", n)
	}
	scan := thriftScan{r: bufio.NewReader(io.NewSectionReader(f, size-8-n, n)), left: n, things: maxFooterThings}
	return scan.structure(nil)
}

// pageCheck goes through the pages of a file before the library reads them: it
// makes room for what they claim to hold, and inflates what they do hold, be it as
// large as it will.
type pageCheck struct {
	f    io.ReaderAt
	left int64 // bytes that may still come out
	zstd *zstd.Decoder
}

func checkPages(f io.ReaderAt, size int64, file *parquet.File) error {
	c := &pageCheck{f: f, left: mayExpandTo(size)}
	defer func() {
		if c.zstd != nil {
			c.zstd.Close()
		}
	}()
	schema := file.Schema()
	paths := schema.Columns()
	for _, group := range file.Metadata().RowGroups {
		if len(group.Columns) != len(paths) {
			return fmt.Errorf("a row group has %d columns, the schema %d", len(group.Columns), len(paths))
		}
		for i := range group.Columns {
			leaf, _ := schema.Lookup(paths[i]...)
			if err := c.column(&group.Columns[i].MetaData, leaf, size); err != nil {
				return prefixed(fmt.Sprintf("column %.100s ", paths[i][0]), err, "")
			}
		}
	}
	return nil
}

func (c *pageCheck) column(meta *pqformat.ColumnMetaData, leaf parquet.LeafColumn, size int64) error {
	from := meta.DataPageOffset
	if meta.DictionaryPageOffset != 0 {
		from = meta.DictionaryPageOffset
	}
	if from < 0 || meta.TotalCompressedSize < 0 || from > size || meta.TotalCompressedSize > size-from {
		return errors.New("lies outside of the file")
	}
	at := &counted{r: io.NewSectionReader(c.f, from, meta.TotalCompressedSize)}
	in := bufio.NewReaderSize(at, 64<<10)
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return nil
		}
		page, err := readPageHeader(in)
		if err != nil {
			return err
		}
		if page.compressed > meta.TotalCompressedSize-at.n+int64(in.Buffered()) {
			return errors.New("has a page that is longer than the column")
		}
		if c.left -= page.compressed + page.claimed + 8*page.values; c.left < 0 {
			return expandsTooMuch()
		}
		data := make([]byte, page.compressed)
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
		if err := c.page(page, data, meta.Codec, leaf); err != nil {
			return err
		}
	}
}

// pageHeader is what is of interest of the structure in front of a page.
type pageHeader struct {
	kind                        int64
	compressed, claimed, values int64
	encoding                    int64
	repetition, definition      int64 // bytes of levels, in the second form of pages
	plain                       bool  // not compressed, in the second form of pages
}

const (
	dataPage, dictionaryPage, dataPage2 = 0, 2, 3
)

func readPageHeader(in *bufio.Reader) (pageHeader, error) {
	got := map[[2]int16]int64{}
	scan := thriftScan{r: in, left: maxPageHeader, things: 1000, number: func(fields []int16, v int64) {
		if len(fields) <= 2 {
			var key [2]int16
			copy(key[:], fields)
			got[key] = v
		}
	}}
	if err := scan.structure(nil); err != nil {
		return pageHeader{}, err
	}
	h := pageHeader{kind: got[[2]int16{1}], claimed: got[[2]int16{2}], compressed: got[[2]int16{3}]}
	var own int16
	switch h.kind {
	case dataPage:
		own = 5
	case dictionaryPage:
		own = 7
	case dataPage2:
		own = 8
		h.definition, h.repetition = got[[2]int16{own, 5}], got[[2]int16{own, 6}]
		isCompressed, said := got[[2]int16{own, 7}]
		h.plain = said && isCompressed == 0
		h.encoding = got[[2]int16{own, 4}]
	default:
		return h, fmt.Errorf("has a page of type %d", h.kind)
	}
	if h.kind != dataPage2 {
		h.encoding = got[[2]int16{own, 2}]
	}
	h.values = got[[2]int16{own, 1}]
	for _, n := range []int64{h.compressed, h.claimed, h.values, h.definition, h.repetition} {
		if n < 0 || n > 1<<31 {
			return h, fmt.Errorf("has a page of %d bytes or values", n)
		}
	}
	if h.definition+h.repetition > h.compressed {
		return h, errors.New("has a page shorter than its levels")
	}
	return h, nil
}

// page checks what one page holds.
func (c *pageCheck) page(h pageHeader, data []byte, codec pqformat.CompressionCodec, leaf parquet.LeafColumn) error {
	repetition, definition := data[:h.repetition], data[h.repetition:h.repetition+h.definition]
	data = data[h.repetition+h.definition:]
	if !h.plain {
		var err error
		if data, err = c.inflate(data, codec, h.claimed); err != nil {
			return err
		}
	}
	if h.kind == dictionaryPage {
		if h.encoding != int64(pqformat.Plain) && h.encoding != int64(oldDictionary) {
			return fmt.Errorf("has a dictionary in the encoding %s", pqformat.Encoding(h.encoding))
		}
		return nil
	}
	var err error
	if h.kind == dataPage {
		if repetition, data, err = levels(data, leaf.MaxRepetitionLevel); err == nil {
			definition, data, err = levels(data, leaf.MaxDefinitionLevel)
		}
	}
	return errors.Join(err,
		runs(repetition, bits.Len(uint(leaf.MaxRepetitionLevel)), h.values),
		runs(definition, bits.Len(uint(leaf.MaxDefinitionLevel)), h.values),
		values(data, h))
}

// levels cuts the levels off a page of the first form.
func levels(data []byte, most int) (level, rest []byte, err error) {
	if most == 0 {
		return nil, data, nil
	}
	if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
		return nil, nil, errors.New("has a page shorter than its levels")
	}
	n := 4 + int(binary.LittleEndian.Uint32(data))
	return data[4:n], data[n:], nil
}

// values checks encodings of which a few bytes can stand for any number of values.
func values(data []byte, h pageHeader) error {
	switch e := pqformat.Encoding(h.encoding); e {
	case pqformat.Plain, pqformat.BitPacked, pqformat.ByteStreamSplit:
		return nil
	case oldDictionary, pqformat.RLEDictionary:
		if len(data) == 0 {
			return nil
		}
		return runs(data[1:], int(data[0]), h.values)
	case pqformat.RLE:
		level, _, err := levels(data, 1)
		return errors.Join(err, runs(level, 1, h.values))
	case pqformat.DeltaBinaryPacked, pqformat.DeltaLengthByteArray:
		total := uint64(0)
		for range 3 { // values in a block, miniblocks in a block, values
			v, n := binary.Uvarint(data)
			if n <= 0 {
				return nil // the library knows what is wrong
			}
			total, data = v, data[n:]
		}
		if total > uint64(h.values) {
			return fmt.Errorf("has a page of %d values with %d of them", h.values, total)
		}
		return nil
	default:
		return &fault{fmt.Sprintf("has the encoding %s, which is not read", e), "write it with the encodings PLAIN or RLE_DICTIONARY"}
	}
}

// runs checks that runs of one value are no longer than the page.
func runs(data []byte, width int, values int64) error {
	sum := uint64(0)
	for len(data) > 0 {
		head, n := binary.Uvarint(data)
		if n <= 0 {
			return nil // the library knows what is wrong
		}
		data = data[n:]
		count, size := head>>1, uint64(width+7)/8
		if head&1 == 1 {
			size = count * uint64(width)
			count *= 8
		}
		if sum += count; head > 1<<40 || sum > uint64(values)+512 { // the last are padded
			return fmt.Errorf("has a page of %d values with %d of them", values, sum)
		}
		if size > uint64(len(data)) {
			return errors.New("has a page that is cut off")
		}
		data = data[size:]
	}
	return nil
}

// inflate decompresses a page that claims a size, and no more than that.
func (c *pageCheck) inflate(data []byte, codec pqformat.CompressionCodec, claimed int64) ([]byte, error) {
	switch codec {
	case pqformat.Uncompressed:
		return data, nil
	case pqformat.Snappy:
		n, err := snappy.DecodedLen(data)
		if err != nil {
			return nil, err
		}
		if int64(n) > claimed {
			return nil, largerPage(claimed)
		}
		return snappy.Decode(nil, data)
	case pqformat.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return upTo(z, claimed)
	case pqformat.Zstd:
		var err error
		if c.zstd == nil {
			c.zstd, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		} else {
			err = c.zstd.Reset(bytes.NewReader(data))
		}
		if err != nil {
			return nil, err
		}
		return upTo(c.zstd, claimed)
	}
	return nil, &fault{fmt.Sprintf("has the compression %s, which is not read", codec), "write it with snappy, zstd or gzip"}
}

func upTo(r io.Reader, claimed int64) ([]byte, error) {
	data := bytes.NewBuffer(make([]byte, 0, min(claimed, 1<<20)))
	n, err := io.CopyN(data, r, claimed+1)
	switch {
	case n > claimed:
		return nil, largerPage(claimed)
	case err != nil && err != io.EOF:
		return nil, err
	}
	return slices.Clip(data.Bytes()), nil
}

func largerPage(claimed int64) error {
	return fmt.Errorf("has a page that claims %d bytes and holds more", claimed)
}
