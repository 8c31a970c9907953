//go:build weirshim

package shim

import _ "embed"

// carried is the library of a release, which gpu/pack.sh and release builds put into the folder
// release.
//
//go:embed release/libweir-cuda.so
var carried []byte
