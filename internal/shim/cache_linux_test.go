package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// kept is the folder of what tests compile, so that a second run of unchanged sources compiles
// nothing. What has not been used for a week goes.
var kept = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "weir", "test")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range old {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour {
			_ = os.RemoveAll(name)
		}
	}
	return dir, nil
})

// keptC compiles sources with these arguments unless that is there already, and returns the path.
// Headers are those of src, of testdata and of this folder.
func keptC(name string, args []string, sources ...string) (string, error) {
	dir, err := kept()
	if err != nil {
		return "", err
	}
	cc, err := findCompiler("")
	if err != nil {
		return "", err
	}
	headers, _ := filepath.Glob("*/*.h")
	h := sha256.New()
	fmt.Fprintln(h, cc, strings.Join(args, " "))
	for _, file := range append(append([]string{"wire.h"}, headers...), sources...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", file, len(text), text)
	}
	path := filepath.Join(dir, hex.EncodeToString(h.Sum(nil)[:12]), name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// Another package's tests may do the same at this moment.
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(temp)
	if err := compileC(append(append(append([]string{}, args...), sources...), "-o", temp, "-ldl",
		"-lpthread")...); err != nil {
		return "", err
	}
	return path, os.Rename(temp, path)
}
