//go:build nogpu

package shim

import "embed"

// Built says whether this program carries the library's source, which is of use with a GPU only.
const Built = false

// sources is empty.
var sources embed.FS
