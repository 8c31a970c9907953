package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install puts the library that containers preload, this program as the runtime's hook and, if it
// is told of one, the fake driver where the host finds them. What running containers have mapped is
// not written over: each file takes the place of the one before as a whole.
func install(args []string) error {
	f := flag.NewFlagSet("install", flag.ContinueOnError)
	shim := f.String("shim", "", "the library for preloading")
	fake := f.String("fake-driver", "", "folder of the fake driver (default: none)")
	to := f.String("to", "", "folder to put them in")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *shim == "" || *to == "" {
		return errors.New("install: want --shim FILE --to FOLDER")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := put(*shim, filepath.Join(*to, "libweir.so"), 0o644); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := put(self, filepath.Join(*to, "weir-node"), 0o755); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if *fake == "" {
		return nil
	}
	if err := putFake(*fake, filepath.Join(*to, "fake")); err != nil {
		return fmt.Errorf("install: fake driver: %w", err)
	}
	return nil
}

// putFake copies what programs load of the fake driver.
func putFake(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var all error
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		all = errors.Join(all, put(filepath.Join(from, name), filepath.Join(to, name), 0o755))
	}
	return all
}

// put copies a file to a new one that then takes the place of another.
func put(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	temp := to + ".new"
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, to)
}
