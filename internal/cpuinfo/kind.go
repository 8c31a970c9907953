package cpuinfo

import "sync"

// Signature tells kinds of x86 processors apart: the maker's name, family and model as CPUID has
// them. It is empty on other architectures.
type Signature struct {
	Vendor        string
	Family, Model int
}

// Processor returns the signature of this machine's processor. It is read once.
func Processor() Signature { return kind() }

var kind = sync.OnceValue(signature)

// decodeSignature adds the extended family and model to EAX of CPUID leaf 1 as both makers' manuals
// say.
func decodeSignature(vendor string, eax uint32) Signature {
	s := Signature{
		Vendor: vendor,
		Family: int(eax >> 8 & 0xf),
		Model:  int(eax >> 4 & 0xf),
	}
	if s.Family == 6 || s.Family == 15 {
		s.Model += int(eax >> 16 & 0xf << 4)
	}
	if s.Family == 15 {
		s.Family += int(eax >> 20 & 0xff)
	}
	return s
}

// HalfRateAVX512 reports whether the processor multiplies and adds no more floats a cycle with
// AVX-512 than with AVX2, as those do that compute a vector of 512 bits in two halves or have one
// unit for them: AMD Zen 4 and the mobile Zen 5, Intel's client processors. Computing then takes
// twice as many cycles beside reading memory. It goes by the signature and never by measuring, so
// that equal machines plan equally. Where the processor is not known the answer is no.
func HalfRateAVX512() bool { return halfRate() }

var halfRate = sync.OnceValue(func() bool { return Processor().halfRateAVX512() })

func (s Signature) halfRateAVX512() bool {
	switch {
	case s.Vendor == "AuthenticAMD" && s.Family == 0x19:
		return true // of this family Zen 4 has AVX-512
	case s.Vendor == "AuthenticAMD" && s.Family == 0x1a:
		return s.Model >= 0x20 && s.Model < 0x40 || s.Model >= 0x60 && s.Model < 0x80
	case s.Vendor == "GenuineIntel" && s.Family == 6:
		switch s.Model {
		case 0x66, 0x7d, 0x7e, 0x8c, 0x8d, 0xa7: // Cannon, Ice, Tiger and Rocket Lake
			return true
		}
	}
	return false
}
