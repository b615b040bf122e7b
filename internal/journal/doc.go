// Package journal keeps events in a file that survives whatever ends the program
// or the machine: each is one line of JSON with a checksum and a number, and
// durable when Append returns.
//
//	{"crc":"1a2b3c4d","seq":7,"at":"2026-01-02T03:04:05.678Z","event":"…","data":{…}}
//
// The checksum (CRC-32C) is of what stands between it and the end of the line. A
// line that was being written when the end came is cut off by the next Open;
// damage before events that are whole is stepped over, and told.
//
// It must not know what events mean. Who may write is the caller's to settle: one
// file has one writer.
package journal
