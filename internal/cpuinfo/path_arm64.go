package cpuinfo

import "fmt"

var paths = []Path{PathPlain, PathNEON, PathDotProd, PathI8MM, PathBF16}

// detect returns the highest path that the program was built with, that the system says the
// processor has, and whose instructions do what they should. Vectors are part of arm64 as Go takes
// it, ARMv8.0, and are not asked for: the compiler uses them, too. The build tag noasm leaves only
// plain Go.
func detect() (p Path, doubt string) {
	if !assembly {
		return PathPlain, ""
	}
	return tried(systemFeatures().path(), try)
}

// tried returns the highest path up to p of which, as of all below, the instructions do what try
// finds in order.
func tried(p Path, try func(Path) error) (Path, string) {
	for _, q := range paths {
		if q > p {
			break
		}
		if err := try(q); err != nil {
			return q - 1, fmt.Sprintf("kernels use no %v: the system says that the processor has "+
				"it, but %v", q, err)
		}
	}
	return p, ""
}
