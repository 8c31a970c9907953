// Command facts writes gpu/facts.md, what weir believes of NVIDIA's driver, from gpu/facts.json and
// from what gpu/check.sh found on GPUs: go run ./gpu/facts
//
// A fact says what is believed, who relies on it, where it is from, what breaks if it is wrong, and
// which check settles it. Its state is that of the last result below bench/results/gpu in which the
// check settled it; results on the fake driver say nothing.
//
// Meet first: Book, which is facts.json, and Finding, what a check came to.
//
// What it refuses: facts without a source and a check, and names that lead nowhere.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . -root ../..

// Where things are below the repository's root.
const (
	dataFile   = "gpu/facts.json"
	pageFile   = "gpu/facts.md"
	resultsDir = "bench/results/gpu"
)

func main() {
	root := flag.String("root", ".", "the repository's root")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	page, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, pageFile), page, 0o644)
}

// generate returns the page that belongs to the data and the results below root.
func generate(root string) ([]byte, error) {
	b, err := readBook(filepath.Join(root, dataFile))
	if err != nil {
		return nil, err
	}
	if err := b.check(root); err != nil {
		return nil, err
	}
	found, err := readFindings(filepath.Join(root, resultsDir))
	if err != nil {
		return nil, err
	}
	return b.page(found), nil
}
