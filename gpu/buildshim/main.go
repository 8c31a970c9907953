// Command buildshim compiles the library that weir exec preloads, with the flags with which weir
// does, below a folder, and prints its path: go run ./gpu/buildshim FOLDER
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/weirgpu/weir/internal/shim"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: buildshim FOLDER")
		os.Exit(2)
	}
	path, err := shim.Build(context.Background(), os.Args[1], "")
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildshim:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}
