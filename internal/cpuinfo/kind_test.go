package cpuinfo

import "testing"

func TestSignatures(t *testing.T) {
	for _, e := range []struct {
		name   string
		vendor string
		eax    uint32
		want   Signature
		half   bool
	}{
		{"Zen 4 server", "AuthenticAMD", 0xa10f11, Signature{"AuthenticAMD", 0x19, 0x11}, true},
		{"Zen 5 server", "AuthenticAMD", 0xb00f21, Signature{"AuthenticAMD", 0x1a, 0x02}, false},
		{"Zen 5 mobile", "AuthenticAMD", 0xb20f40, Signature{"AuthenticAMD", 0x1a, 0x24}, true},
		{"Sapphire Rapids", "GenuineIntel", 0x806f8, Signature{"GenuineIntel", 6, 0x8f}, false},
		{"Tiger Lake", "GenuineIntel", 0x806c1, Signature{"GenuineIntel", 6, 0x8c}, true},
		{"Pentium 4", "GenuineIntel", 0xf41, Signature{"GenuineIntel", 15, 4}, false},
		{"unknown", "", 0, Signature{}, false},
	} {
		s := decodeSignature(e.vendor, e.eax)
		if s != e.want {
			t.Errorf("%s: %#x is %+v, want %+v", e.name, e.eax, s, e.want)
		}
		if s.halfRateAVX512() != e.half {
			t.Errorf("%s: half rate %v, want %v", e.name, s.halfRateAVX512(), e.half)
		}
	}
}

func TestProcessorIsRead(t *testing.T) {
	s := Processor()
	if SupportedPath() >= PathAVX2 && (s.Vendor == "" || s.Family == 0) {
		t.Errorf("a processor with AVX2 has the signature %+v", s)
	}
	t.Logf("%+v, half rate %v", s, HalfRateAVX512())
}
