package share_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirgpu/weir/share"
)

func TestParseBytes(t *testing.T) {
	for _, tc := range []struct {
		text string
		want share.Bytes
		out  string
	}{
		{"0", 0, "0B"},
		{"1B", 1, "1B"},
		{"8G", 8 << 30, "8GiB"},
		{"8g", 8 << 30, "8GiB"},
		{"8gib", 8 << 30, "8GiB"},
		{"4 GIB", 4 << 30, "4GiB"},
		{"100kb", 100e3, "100kB"},
		{"512M", 512 << 20, "512MiB"},
		{"1.5 T", 3 << 39, "1.5TiB"},
		{"64k", 64 << 10, "64KiB"},
		{"64K", 64 << 10, "64KiB"},
		{"4GiB", 4 << 30, "4GiB"},
		{" 512 MiB ", 512 << 20, "512MiB"},
		{"1.5GiB", 3 << 29, "1.5GiB"},
		{"1536MiB", 3 << 29, "1.5GiB"},
		{"0.25KiB", 256, "256B"},
		{"2GB", 2e9, "2GB"},
		{"1.25GB", 125e7, "1.25GB"},
		{"1041.6kB", 1041600, "1041.6kB"}, // no whole number in float64
		{"9223372.036854775807TB", 1<<63 - 1, "9223372036854775807B"},
		{"1kB", 1000, "1kB"},
		{"100KB", 100e3, "100kB"},
		{"1234567KiB", 1234567 << 10, "1264196608B"},
		{"1025B", 1025, "1025B"},
		{"8191.75PiB", 8191*share.PiB + 3*share.PiB/4, "8191.75PiB"},
		{"7EiB", 7 * share.EiB, "7EiB"}, {"1024PiB", share.EiB, "1EiB"},
		{"2 e", 2 * share.EiB, "2EiB"},
		{"9223372036854775807B", 1<<63 - 1, "9223372036854775807B"},
	} {
		got, err := share.ParseBytes(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", tc.text, got, err, tc.want)
		}
		if got.String() != tc.out {
			t.Errorf("%d: String() = %q, want %q", got, got.String(), tc.out)
		}
	}
	for _, text := range []string{"", "GiB", "-1B", "-1GiB", "8", "1.5", "1.3B", "0.1KiB",
		"NaN", "Inf", "1e9", "1.2.3MiB", "8192PiB", "8EiB",
		"9223372036854775808B", "1_000B", ".B", "+1B",
		"0x10B", "i", "KiB8"} {
		if got, err := share.ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
	const want = `size "8" has no unit: did you mean 8GiB, 8MiB or 8B?`
	if _, err := share.ParseBytes("8"); err == nil || err.Error() != want {
		t.Errorf("a bare number: %v, want %s", err, want)
	}
}

// TestBytesReadBack: every size is read as it was written.
func TestBytesReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 29))
	for range 100_000 {
		size := share.Bytes(r.Int64N(1 << r.IntN(63)))
		for _, step := range []share.Bytes{1, 10, 1e4, 1e7, 256, share.MiB / 4} {
			want := size - size%step
			if got, err := share.ParseBytes(want.String()); err != nil || got != want {
				t.Fatalf("%d is written %q and read %d, %v", int64(want), want, int64(got), err)
			}
		}
	}
}

func TestBytesAbout(t *testing.T) {
	for size, want := range map[share.Bytes]string{0: "0B", 1023: "1023B", 8 << 20: "8MiB",
		8<<20 + 1: "8MiB (8388609B)",
		12345678:  "11.8MiB (12345678B)", 5_000_000_000: "4.66GiB (5000000000B)",
		// three digits would be 1e+03
		1023<<20 + 513<<10: "1024MiB (1073218560B)", 1000<<10 + 1: "1000KiB (1024001B)",
		999<<10 + 600: "1000KiB (1023576B)", 999<<10 + 1: "999KiB (1022977B)"} {
		if got := size.About(); got != want {
			t.Errorf("%d: %q, want %q", int64(size), got, want)
		}
	}
}

func TestBytesAsText(t *testing.T) {
	type doc struct {
		share.Share `yaml:",inline"`
	}
	var d doc
	if err := yaml.Unmarshal([]byte("memory: 512MiB\ncompute: 0.5\nlimit: 1.0\nclass: latency\n"),
		&d); err != nil {
		t.Fatal(err)
	}
	want := share.Share{Memory: 512 * share.MiB, Compute: 0.5, Limit: 1, Class: share.Latency}
	if d.Share != want {
		t.Errorf("yaml: %+v, want %+v", d.Share, want)
	}
	for _, bad := range []string{"memory: lots", "memory: 4096", "class: urgent", "memory: -4"} {
		if err := yaml.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("yaml %q: accepted", bad)
		}
	}
	text, err := json.Marshal(want)
	if err != nil || string(text) !=
		`{"memory":"512MiB","compute":0.5,"limit":1,"class":"latency"}` {
		t.Errorf("json: %s, %v", text, err)
	}
	var back share.Share
	if err := json.Unmarshal(text, &back); err != nil || back != want {
		t.Errorf("json: %+v, %v", back, err)
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"4GiB", "1.5MiB", "99999999999PiB", "1..2B", "0.0000000000001TiB",
		"7 kB"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := share.ParseBytes(text)
		if err != nil {
			return
		}
		if b < 0 {
			t.Fatalf("ParseBytes(%q) = %d", text, b)
		}
		if again, err := share.ParseBytes(b.String()); err != nil || again != b {
			t.Fatalf("%q: %d writes as %q and reads as %d, %v", text, b, b.String(), again, err)
		}
	})
}
