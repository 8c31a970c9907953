package feed

import (
	"fmt"
	"strconv"
	"strings"
)

// Shape is a list of sizes, written "1x3x224x224"; "scalar" has none.
type Shape []int

// ParseShape reads the form that [Shape] is written in.
func ParseShape(text string) (Shape, error) {
	if text == "scalar" || text == "" {
		return Shape{}, nil
	}
	var s Shape
	for _, part := range strings.Split(text, "x") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("shape %q: want sizes joined by x, such as 1x3x224x224", text)
		}
		s = append(s, n)
	}
	return s, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Shape) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShape(string(text))
	return err
}

// String writes the form that [ParseShape] reads.
func (s Shape) String() string {
	if len(s) == 0 {
		return "scalar"
	}
	parts := make([]string, len(s))
	for i, n := range s {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}
