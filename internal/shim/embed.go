//go:build !nogpu

package shim

import "embed"

// Built says whether this program carries the library's source.
const Built = true

// sources is the library's C source: wire.h, and src with the rest, of which generated.zip holds
// what gen derives from calls.tab.
//
//go:embed wire.h src/*.c src/*.h src/generated.zip
var sources embed.FS
