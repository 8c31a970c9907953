package cpuinfo

var paths = []Path{PathPlain, PathNEON}

// detect returns the highest path that the program was built with. Vectors are part of arm64 as Go
// takes it, ARMv8.0, and are not asked for: the compiler uses them, too. The build tag noasm leaves
// only plain Go.
func detect() Path {
	if !assembly {
		return PathPlain
	}
	return PathNEON
}
