//go:build !linux || noasm

package cpuinfo

// theProcessor has no tiles that anyone could ask for.
var theProcessor = &processor{}
