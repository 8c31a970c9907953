//go:build !linux && !darwin

package cpuinfo

// systemFeatures knows no way to ask.
func systemFeatures() armFeatures { return armFeatures{} }

// guarded runs f.
func guarded(f func()) error {
	f()
	return nil
}
