//go:build !nogpu

package fakecuda

import "embed"

const built = true

//go:embed fakecuda.h model driver nvml example stress smi mps
var sources embed.FS
