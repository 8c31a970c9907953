//go:build nogpu

package fakecuda

import "embed"

// A program without the GPU's library has no use for a stand-in of it.
const built = false

var sources embed.FS
