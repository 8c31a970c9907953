package main

import (
	"encoding/binary"
	"math/rand/v2"
)

// words are what parsers stumble over.
var words = []string{"-1", "0", "1e999", "9223372036854775807", "9223372036854775808",
	"18446744073709551616", "-9223372036854775808", "4294967296", "null", "true", "\"\"", "[]",
	"{}", "[[[[", "\\u0000", "\\ud800", "\xff\xfe", "NaN", "1.5", "\"\":1,",
	"\"shape\":[4294967296,4294967296]", "\"data\":[1,2", "BYTES", "FP16", "BF16", "INT64", "BOOL",
	"shared_memory_region", "binary_data_size", "sequence_id", "classification"}

// mutated is b with a few changes.
func mutated(rng *rand.Rand, b []byte) []byte {
	b = append([]byte(nil), b...)
	for range rng.IntN(4) {
		if len(b) == 0 {
			b = append(b, byte(rng.IntN(256)))
		}
		at := rng.IntN(len(b))
		switch rng.IntN(8) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] = byte(rng.IntN(256))
		case 2:
			b = b[:at]
		case 3:
			w := words[rng.IntN(len(words))]
			b = append(b[:at:at], append([]byte(w), b[at:]...)...)
		case 4:
			w := words[rng.IntN(len(words))]
			b = append(b[:at:at], append([]byte(w), b[min(len(b), at+len(w)):]...)...)
		case 5:
			to := at + rng.IntN(len(b)-at)
			b = append(b, b[at:to]...)
		case 6:
			b = append(b[:at:at], b[at+rng.IntN(len(b)-at):]...)
		case 7:
			if at+4 <= len(b) {
				binary.LittleEndian.PutUint32(b[at:], rng.Uint32())
			}
		}
	}
	return b
}
