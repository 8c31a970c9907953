//go:build !amd64 || noasm

package cpuinfo

func signature() Signature { return Signature{} }
