package share

import (
	"fmt"
	"math"
	"math/big"
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
	EiB
)

// byteUnit is a unit of sizes. Sizes that are whole multiples of step are written in it, with two
// decimals at most.
type byteUnit struct {
	suffix     string
	size, step Bytes
}

// byteUnits lists the suffixes that ParseBytes accepts, the longer before those that end like them.
// Those with a step are the ones that String writes.
var byteUnits = []byteUnit{
	{"EiB", EiB, EiB / 4}, {"PiB", PiB, PiB / 4},
	{"TiB", TiB, TiB / 4}, {"GiB", GiB, GiB / 4}, {"MiB", MiB, MiB / 4},
	{"KiB", KiB, KiB / 4},
	{"EB", 1e18, 1e16}, {"PB", 1e15, 1e13},
	{"TB", 1e12, 1e10}, {"GB", 1e9, 1e7}, {"MB", 1e6, 1e4}, {"kB", 1e3, 10},
	{"B", 1, 0},
	{"E", EiB, 0}, {"P", PiB, 0}, {"T", TiB, 0}, {"G", GiB, 0}, {"M", MiB, 0}, {"K", KiB, 0},
}

// ParseBytes reads a size: a decimal number and one of B, kB, MB, GB, TB, PB, EB (powers of 1000),
// KiB, MiB, GiB, TiB, PiB, EiB or, short for these, K, M, G, T, P, E (powers of 1024), in upper or
// lower case, with or without a space between. Only 0 needs no unit: whoever writes 8 hardly means
// 8 bytes. Negative, fractional-byte, infinite and overflowing sizes are errors.
func ParseBytes(text string) (Bytes, error) {
	s := strings.TrimSpace(text)
	for _, u := range byteUnits {
		if digits, ok := cutFold(s, u.suffix); ok {
			return parseScaled(text, strings.TrimSpace(digits), u.size)
		}
	}
	if s == "0" {
		return 0, nil
	}
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, errBytes(text)
	}
	return 0, fmt.Errorf("size %q has no unit: did you mean %sGiB, %[2]sMiB or %[2]sB?", text, s)
}

// cutFold cuts a suffix in upper or lower case.
func cutFold(s, suffix string) (before string, ok bool) {
	at := len(s) - len(suffix)
	if at < 0 || !strings.EqualFold(s[at:], suffix) {
		return s, false
	}
	return s[:at], true
}

func errBytes(text string) error {
	return fmt.Errorf("size %q: want a number and a unit (B, KiB, MiB, GiB, TiB, PiB, EiB), "+
		"such as 512MiB", text)
}

func parseScaled(text, digits string, unit Bytes) (Bytes, error) {
	if strings.Trim(digits, "0123456789.") != "" || digits == "" {
		return 0, errBytes(text)
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > math.MaxInt64/int64(unit) {
			return 0, fmt.Errorf("size %q: over the largest size, %d bytes", text,
				int64(math.MaxInt64))
		}
		return Bytes(n) * unit, nil
	}
	if len(digits) > maxDigits {
		return 0, errBytes(text)
	}
	size, ok := new(big.Rat).SetString(digits) // 1041.6 times 1000 is not whole in float64
	if !ok {
		return 0, errBytes(text)
	}
	size.Mul(size, new(big.Rat).SetInt64(int64(unit)))
	switch {
	case size.Cmp(new(big.Rat).SetInt64(math.MaxInt64)) > 0:
		return 0, fmt.Errorf("size %q: over the largest size, %d bytes", text, int64(math.MaxInt64))
	case !size.IsInt():
		return 0, fmt.Errorf("size %q: not a whole number of bytes", text)
	}
	return Bytes(size.Num().Int64()), nil
}

// maxDigits is more than any size has that is a whole number of bytes.
const maxDigits = 100

// String writes the size exactly, as a person would: in the largest unit, binary before decimal, in
// which it is below 10,000 and has two decimals at most, else in bytes: "4GiB", "1.5MiB", "2GB",
// "1000001B". ParseBytes(b.String()) is b for every size from 0 up.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if u.step == 0 || b%u.step != 0 || b < u.size && b > -u.size || u.size < EiB &&
			(b/u.size >= 10000 || b/u.size <= -10000) {
			continue
		}
		return strconv.FormatFloat(float64(b)/float64(u.size), 'f', -1, 64) + u.suffix
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// About returns the size for people: "12.5MiB" where that is exact, else rounded to three digits
// with the exact count after it, "11.8MiB (12345678B)", since a cap may be missed by one byte.
func (b Bytes) About() string {
	for _, u := range byteUnits[:6] {
		if b >= u.size && b%u.step != 0 {
			n, format := float64(b)/float64(u.size), "%.3g%s (%dB)"
			if n >= 999.5 { // of which three digits would be 1e+03
				format = "%.0f%s (%dB)"
			}
			return fmt.Sprintf(format, n, u.suffix, int64(b))
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
