package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// shimLibrary returns the library to preload.
func shimLibrary(given string) (string, error) {
	if given == "" {
		return "", errors.New("this weir has no library to preload: give one with --shim")
	}
	if fi, err := os.Stat(given); err != nil {
		return "", fmt.Errorf("--shim: %w", err)
	} else if fi.IsDir() {
		return "", fmt.Errorf("--shim %s: is a folder, want the library", given)
	}
	return filepath.Abs(given)
}

// fakeDriver returns the folder of the fake driver's libraries and the example program.
func fakeDriver() (dir, example string, err error) {
	return "", "", errors.New("this weir has no fake driver")
}
