package cpuinfo

import "testing"

func TestPathOfFeatures(t *testing.T) {
	for _, c := range []struct {
		have features
		want Path
	}{
		{features{}, PathPlain},
		{features{avx2: true}, PathAVX2},
		{features{avx512: true, vnni: true, bf16: true}, PathPlain},
		{features{avx2: true, vnni: true, bf16: true}, PathAVX2},
		{features{avx2: true, avx512: true}, PathAVX512},
		{features{avx2: true, avx512: true, bf16: true}, PathAVX512},
		{features{avx2: true, avx512: true, vnni: true}, PathAVX512VNNI},
		{features{avx2: true, avx512: true, vnni: true, bf16: true}, PathAVX512BF16},
		{features{avx2: true, avx512: true, vnni: true, tiles: true}, PathAVX512VNNI},
		{features{avx2: true, avx512: true, vnni: true, bf16: true, tiles: true}, PathAMX},
	} {
		if got := c.have.path(); got != c.want {
			t.Errorf("%+v: path %v, want %v", c.have, got, c.want)
		}
	}
}
