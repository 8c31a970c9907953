package share

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in memory. It is read and written as text with a unit, such as "4GiB" or
// "512MiB".
type Bytes int64

// The binary units of memory sizes (IEC 80000-13).
const (
	KiB Bytes = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
	PiB
)

// byteUnits lists the suffixes that ParseBytes accepts, the longest unit of each family first so
// that String meets the best fit first.
var byteUnits = []struct {
	suffix string
	size   Bytes
}{
	{"PiB", PiB}, {"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	{"B", 1}, {"", 1},
}

// ParseBytes reads a size: a decimal number, then optionally one of B, kB, MB, GB, TB, PB (powers
// of 1000) or KiB, MiB, GiB, TiB, PiB (powers of 1024), with or without a space between. A bare
// number counts bytes. Negative, fractional-byte, infinite and overflowing sizes are errors.
func ParseBytes(text string) (Bytes, error) {
	s := strings.TrimSpace(text)
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		return parseScaled(text, strings.TrimSpace(digits), u.size)
	}
	return 0, fmt.Errorf("size %q: want a number and a unit, such as 512MiB", text)
}

func parseScaled(text, digits string, unit Bytes) (Bytes, error) {
	if strings.Trim(digits, "0123456789.") != "" || digits == "" {
		return 0, fmt.Errorf("size %q: want a number and a unit (B, KiB, MiB, GiB, TiB, PiB), "+
			"such as 512MiB", text)
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("size %q: over the largest size, %d bytes", text,
				int64(math.MaxInt64))
		}
		return Bytes(n) * unit, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a number and a unit, such as 512MiB", text)
	}
	scaled := f * float64(unit)
	switch {
	case scaled >= math.MaxInt64:
		return 0, fmt.Errorf("size %q: over the largest size, %d bytes", text, int64(math.MaxInt64))
	case scaled != math.Trunc(scaled):
		return 0, fmt.Errorf("size %q: not a whole number of bytes", text)
	}
	return Bytes(scaled), nil
}

// String writes the size exactly, in the largest binary unit that needs no more than two decimals,
// else in bytes: "4GiB", "1.5MiB", "1000001B". ParseBytes(b.String()) is b for every size from 0
// up.
func (b Bytes) String() string {
	for _, u := range byteUnits[:5] {
		if b < u.size && b > -u.size {
			continue
		}
		if b%(u.size/4) == 0 {
			return strconv.FormatFloat(float64(b)/float64(u.size), 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// About returns the size for people: "12.5MiB" where that is exact, else rounded to three digits
// with the exact count after it, "11.8MiB (12345678B)", since a cap may be missed by one byte.
func (b Bytes) About() string {
	for _, u := range byteUnits[:5] {
		if b >= u.size && b%(u.size/4) != 0 {
			return fmt.Sprintf("%.3g%s (%dB)", float64(b)/float64(u.size), u.suffix, int64(b))
		} else if b >= u.size {
			break
		}
	}
	return b.String()
}

// MarshalText writes String's form.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what [ParseBytes] accepts.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := ParseBytes(string(text))
	if err != nil {
		return err
	}
	*b = v
	return nil
}
