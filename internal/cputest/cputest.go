package cputest

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Paths returns the paths that this machine has and the environment allows, the best one first.
func Paths() []cpuinfo.Path {
	var paths []cpuinfo.Path
	for _, p := range slices.Backward(cpuinfo.Paths()) {
		if p > cpuinfo.SupportedPath() {
			continue
		}
		paths = append(paths, p)
	}
	return paths
}

// EachPath runs f as a subtest once on each of Paths. As it changes what the whole process uses,
// neither t nor f may be parallel.
func EachPath(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for _, p := range Paths() {
		t.Run(p.String(), func(t *testing.T) {
			defer cpuinfo.Limit(p)()
			f(t)
		})
	}
}
