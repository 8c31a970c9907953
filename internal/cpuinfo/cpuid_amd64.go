//go:build !noasm

package cpuinfo

import "encoding/binary"

// cpuid executes CPUID with ECX sub.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// xgetbv executes XGETBV with ECX 0: it is illegal where CPUID does not say that it is there.
func xgetbv() (eax, edx uint32)

// stamp executes RDTSC.
func stamp() uint64

// signature reads the maker, family and model: leaf 0 spells the maker in EBX, EDX and ECX, leaf 1
// has the numbers (Intel SDM volume 2A, CPUID; AMD64 APM volume 3, appendix E).
func signature() Signature {
	_, b, c, d := cpuid(0, 0)
	name := binary.LittleEndian.AppendUint32(nil, b)
	name = binary.LittleEndian.AppendUint32(name, d)
	name = binary.LittleEndian.AppendUint32(name, c)
	s, _, _, _ := cpuid(1, 0)
	return decodeSignature(string(name), s)
}
