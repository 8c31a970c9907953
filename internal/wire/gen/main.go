// Command gen writes the C header of the package internal/wire to the file named, or to standard
// output.
package main

import (
	"fmt"
	"os"

	"github.com/weirgpu/weir/internal/wire"
)

func main() {
	var err error
	if len(os.Args) > 1 {
		err = os.WriteFile(os.Args[1], wire.CHeader(), 0o666)
	} else {
		_, err = os.Stdout.Write(wire.CHeader())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
