//go:build !linux && !darwin

package cpuinfo

func readModelName() string { return "" }

func readCacheSizes() Caches { return Caches{} }

func readCoreKinds() []CoreKind { return nil }
