//go:build !amd64 && !arm64

package cpuinfo

var paths = []Path{PathPlain}

func detect() (p Path, doubt string) { return PathPlain, "" }
