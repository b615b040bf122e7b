// Package datasets reads what is to be graded: instances (the rows of a
// benchmark) and predictions (the patches of a model).
//
// It normalises the shapes people really have (JSON, JSONL, Parquet, folders,
// gzip and zstd), selects instances, and reports every fault of the input with
// file, line, instance and reason, all at once where it can.
//
// It must not know how images are built, how containers are run or how a
// verdict is reached. The only network code below it is the hub client.
package datasets
