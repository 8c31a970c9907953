package zoo

import (
	"errors"
	"fmt"
)

// ErrOption is the kind of error about an option that an architecture does not have, or a value
// that it cannot take.
var ErrOption = errors.New("bad option")

// Options choose the seed of the weights and, away from zero, a smaller or larger variant of an
// architecture. The zero Options give the published network.
type Options struct {
	// Seed selects the random weights.
	Seed uint64

	// Layers is the number of layers of a transformer; of an image network, the most blocks that a
	// stage may have.
	Layers int

	// Width multiplies the channels of an image network, rounded to a multiple of 8 as by
	// MobileNetV2's authors.
	Width float64
	// Resolution is the height and width of the pictures; a multiple of 32 for yolov8n.
	Resolution int
	// Classes is the number of classes of an image network.
	Classes int

	// Hidden is the width of a transformer, a multiple of its head size, which stays what it is.
	Hidden int
	// Vocabulary is the number of tokens of a transformer.
	Vocabulary int
}

// field is a set of options that an architecture has next to Seed and Layers.
type field uint8

const (
	imageOptions field = 1 << iota // Width, Resolution, Classes
	textOptions                    // Hidden, Vocabulary
)

// Bounds of options: far beyond any published variant, and small enough that no product of a few
// overflows.
const (
	maxLayers     = 1024
	maxWidth      = 16
	maxResolution = 8192
	maxSize       = 1 << 20 // classes, vocabulary
	maxHidden     = 1 << 15
)

// option is one option with the range of its values.
type option struct {
	name     string
	value    float64
	lo, hi   float64
	multiple int   // 0: any value in the range
	applies  field // 0: to all
}

// check holds the options against the ranges and against what the architecture has.
func (o Options) check(a Arch) error {
	for _, p := range []option{
		{"Layers", float64(o.Layers), 1, maxLayers, 1, 0},
		{"Width", o.Width, 1.0 / 64, maxWidth, 0, imageOptions},
		{"Resolution", float64(o.Resolution), 32, maxResolution, a.multiple, imageOptions},
		{"Classes", float64(o.Classes), 1, maxSize, 1, imageOptions},
		{"Hidden", float64(o.Hidden), 1, maxHidden, a.multiple, textOptions},
		{"Vocabulary", float64(o.Vocabulary), 1, maxSize, 1, textOptions},
	} {
		if p.value == 0 {
			continue
		}
		if p.applies != 0 && p.applies != a.options {
			return fmt.Errorf("zoo: %s: %w: the architecture has no %s", a.Name, ErrOption, p.name)
		}
		if !(p.lo <= p.value && p.value <= p.hi) {
			return fmt.Errorf("zoo: %s: %w: %s is %v, want %v to %v", a.Name, ErrOption, p.name,
				p.value, p.lo, p.hi)
		}
		if p.multiple > 1 && int(p.value)%p.multiple != 0 {
			return fmt.Errorf("zoo: %s: %w: %s is %v, want a multiple of %d", a.Name, ErrOption,
				p.name, p.value, p.multiple)
		}
	}
	return nil
}

// or returns the option's value, or that of the published network when it is not set.
func or(value, published int) int {
	if value == 0 {
		return published
	}
	return value
}

// blocks bounds the blocks of a stage by Layers.
func (o Options) blocks(published int) int {
	if o.Layers == 0 {
		return published
	}
	return min(o.Layers, published)
}

// channels scales a number of channels by Width and rounds it to a multiple of 8, but not to below
// nine tenths: the rule of MobileNetV2's reference implementation (_make_divisible).
func (o Options) channels(published int) int {
	if o.Width == 0 {
		return published
	}
	// the conversion keeps compilers from fusing it into the sum
	want := float64(float64(published) * o.Width)
	n := max(8, int(want+4)/8*8)
	if float64(n) < 0.9*want {
		n += 8
	}
	return n
}
