package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
)

// parquetColumn says how one leaf of a Parquet file fills a cell.
type parquetColumn struct {
	name string
	list bool
	// elementLevel is the definition level of a null element of a list, to be
	// told from a null or empty list; -1 when elements cannot be null.
	elementLevel int
}

// readParquet calls row for each row of a file, with its 1-based number, until it
// says false.
func readParquet(ctx context.Context, path string, wanted map[string]bool, row func(cells map[string]any, number int) bool) error {
	f, err := os.Open(path)
	if err != nil {
		return pathless(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return pathless(err)
	}
	return readParquetFrom(ctx, f, info.Size(), wanted, row)
}

func readParquetFrom(ctx context.Context, f io.ReaderAt, size int64, wanted map[string]bool, row func(cells map[string]any, number int) bool) (err error) {
	// The library panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			err = damagedParquet(fmt.Errorf("%v", p))
		}
	}()
	if err := checkFooter(f, size); err != nil {
		return damagedParquet(err)
	}
	file, err := parquet.OpenFile(f, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return damagedParquet(err)
	}
	if err := checkPages(f, size, file); err != nil {
		return unreadableParquet(err)
	}
	leaves, unreadable := parquetColumns(file.Schema(), wanted)
	number, left := 0, mayExpandTo(size)
	for _, group := range file.RowGroups() {
		if err := readRowGroup(ctx, group, leaves, unreadable, &number, &left, row); err != nil {
			return err
		}
	}
	return nil
}

// unreadableParquet is a fault of a file that says itself what is wrong with it.
func unreadableParquet(err error) error {
	if f, ok := errors.AsType[*fault](err); ok && f.fix != "" {
		return f
	}
	return damagedParquet(err)
}

func damagedParquet(err error) error {
	return &fault{"is no readable Parquet file: " + err.Error(), "copy or download it again; a file of some 130 bytes may be a Git LFS pointer"}
}

// parquetColumns maps leaf indexes to the wanted columns. Columns of a shape no
// cell can have are returned as errors by name.
func parquetColumns(schema *parquet.Schema, wanted map[string]bool) (map[int]parquetColumn, map[string]error) {
	paths := map[string][][]string{}
	for _, path := range schema.Columns() {
		if wanted[path[0]] {
			paths[path[0]] = append(paths[path[0]], path)
		}
	}
	leaves, unreadable := map[int]parquetColumn{}, map[string]error{}
	for name, leafPaths := range paths {
		leaf, ok := schema.Lookup(leafPaths[0]...)
		if !ok || len(leafPaths) > 1 || leaf.MaxRepetitionLevel > 1 || (leaf.MaxRepetitionLevel == 0 && len(leafPaths[0]) > 1) {
			unreadable[name] = &fault{"is a nested Parquet column", "write it as JSON text"}
			continue
		}
		c := parquetColumn{name: name, list: leaf.MaxRepetitionLevel == 1, elementLevel: -1}
		if leaf.Node.Optional() {
			c.elementLevel = int(leaf.MaxDefinitionLevel) - 1
		}
		leaves[int(leaf.ColumnIndex)] = c
	}
	return leaves, unreadable
}

func readRowGroup(ctx context.Context, group parquet.RowGroup, leaves map[int]parquetColumn, unreadable map[string]error, number *int, left *int64, row func(map[string]any, int) bool) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	batch := make([]parquet.Row, 16)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rows.ReadRows(batch)
		for _, r := range batch[:n] {
			*number++
			// Of many rows, each may hold the same large value of a dictionary.
			if *left -= rowSize(r); *left < 0 {
				return expandsTooMuch()
			}
			if !row(parquetCells(r, leaves, unreadable), *number) {
				return errFull
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return damagedParquet(err)
		case n == 0:
			return damagedParquet(io.ErrNoProgress)
		}
	}
}

func rowSize(r parquet.Row) int64 {
	size := int64(0)
	for _, v := range r {
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			size += int64(len(v.ByteArray()))
		}
	}
	return size
}

func parquetCells(r parquet.Row, leaves map[int]parquetColumn, unreadable map[string]error) map[string]any {
	cells := make(map[string]any, len(leaves)+len(unreadable))
	for name, err := range unreadable {
		cells[name] = err
	}
	for index, values := range r.Range {
		c, ok := leaves[index]
		switch {
		case !ok:
		case c.list:
			cells[c.name] = parquetList(c, values)
		case len(values) == 1 && !values[0].IsNull():
			cells[c.name] = parquetText(values[0])
		default:
			cells[c.name] = nil
		}
	}
	return cells
}

func parquetList(c parquetColumn, values []parquet.Value) any {
	var names []string
	for i, v := range values {
		switch {
		case !v.IsNull():
			names = append(names, parquetText(v))
		case v.DefinitionLevel() == c.elementLevel:
			return &fault{fmt.Sprintf("element %d is null, not a test name", i), "write every test name as a string"}
		}
	}
	return names
}

// parquetText copies a value; the library reuses its buffers.
func parquetText(v parquet.Value) string {
	switch v.Kind() {
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return string(v.ByteArray())
	}
	return v.String()
}
