// Package cache keeps files on disk that can be made again: content-addressed
// entries, what was downloaded, and the records that say which is which.
//
// It gives the other packages the three things such a store needs: keys that
// mean the same on every machine (Key), writes that are there whole or not at
// all (WriteFile, WriteJSON, Replace), and locks for processes that share one
// folder (Lock).
//
// It must not know what an image, a dataset or a verdict is. Deleting the
// whole folder (Dir) costs time, never a result.
package cache
