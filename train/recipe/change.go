package recipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is a random change of an image of a batch, drawn from the seed, the epoch and the sample.
type Change struct {
	Kind string // "flip" or "crop"
	By   int    // of crop: the pixels by which it is moved at most, zeros moving in
}

// maxCrop is more pixels than images have.
const maxCrop = 1 << 20

// ParseChange reads a change: "flip" or "crop 4".
func ParseChange(text string) (Change, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && words[0] == "flip":
		return Change{Kind: "flip"}, nil
	case len(words) == 2 && words[0] == "crop":
		if by, err := strconv.Atoi(words[1]); err == nil && by > 0 && by <= maxCrop {
			return Change{Kind: "crop", By: by}, nil
		}
	}
	return Change{}, fmt.Errorf("%q: want flip, or crop with a number of pixels, as in crop 4",
		text)
}

// listed reports whether a name is in a list as it is told to people.
func listed(list, name string) bool { return slices.Contains(strings.Split(list, ", "), name) }
