package recipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is a random change of an image of a batch, drawn from the seed, the epoch and the sample.
type Change struct {
	Kind string // "flip", "crop" or "resize"
	By   int    // of crop: the pixels by which it is moved at most, zeros moving in
	// Least and Most, of resize, are the parts of a picture's area between which a part is drawn,
	// which is scaled to the model's size.
	Least, Most float64
}

// maxCrop is more pixels than images have.
const maxCrop = 1 << 20

// ParseChange reads a change: "flip", "crop 4" or "resize 0.3 1".
func ParseChange(text string) (Change, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && words[0] == "flip":
		return Change{Kind: "flip"}, nil
	case len(words) == 2 && words[0] == "crop":
		if by, err := strconv.Atoi(words[1]); err == nil && by > 0 && by <= maxCrop {
			return Change{Kind: "crop", By: by}, nil
		}
	case len(words) == 3 && words[0] == "resize":
		least, e1 := strconv.ParseFloat(words[1], 64)
		most, e2 := strconv.ParseFloat(words[2], 64)
		if e1 == nil && e2 == nil && least > 0 && least <= most && most <= 1 {
			return Change{Kind: "resize", Least: least, Most: most}, nil
		}
	}
	return Change{}, fmt.Errorf("%q: want flip; crop with a number of pixels, as in crop 4; or "+
		"resize with parts of a picture's area, as in resize 0.3 1", text)
}

// listed reports whether a name is in a list as it is told to people.
func listed(list, name string) bool { return slices.Contains(strings.Split(list, ", "), name) }
