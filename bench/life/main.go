// Command life measures what changes of a server's models, its stops, too much to do, and many
// requests cost: over real connections, with the clients in the same process.
//
//	go run ./bench/life swaps [-for 60s]     a swap each 100 ms against none, in turn: to the
//	                                         version served before, and to one that is new
//	go run ./bench/life stops [-n 1000]      servers that stop under load
//	go run ./bench/life overload [-for 10m]  twice the load that the server can bear
//	go run ./bench/life week [-n 10000000]   a week of requests, one each 60 ms, in short
//	go run ./bench/life idle [-n 20]         servers that begin, and one that is asked nothing
//	go run ./bench/life cold [-n 20]         models that a server loads for their first request
//
// The first three ask over HTTP, or with -over grpc over gRPC; a week is asked in the process, with
// a client that goes and a request that fails among a hundred. It prints one JSON object, and ends
// with 1 where a request was lost, memory was not flat, of rollbacks the 99th percentile is more
// than 1.2 times as long, an idle server takes more than it may, or a first answer comes more than
// a tenth later than the model starts alone in a process.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// outcome is what was measured, and whether that is as it must be.
type outcome interface{ ok() bool }

// result is an outcome with what it was measured on.
type result struct {
	Date    string  `json:"date"`
	Commit  string  `json:"commit"`
	Machine string  `json:"machine"`
	What    string  `json:"what"`
	Over    string  `json:"over"`
	OK      bool    `json:"ok"`
	Result  outcome `json:"result"`
}

func main() {
	f := flag.NewFlagSet("life", flag.ExitOnError)
	during := f.Duration("for", time.Minute, "how long each way is measured")
	count := f.Int("n", 0, "how many stops (0: 1000), requests of a week (0: 10000000) "+
		"or starts (0: 20)")
	clients := f.Int("clients", 2, "requests under way at a time")
	over := f.String("over", "http", "how requests are sent: http or grpc")
	if len(os.Args) < 2 {
		fatal(errors.New("give swaps, stops, overload, week, idle or cold"))
	}
	what := os.Args[1]
	_ = f.Parse(os.Args[2:])
	if *over != "http" && *over != "grpc" {
		fatal(fmt.Errorf("-over %s: give http or grpc", *over))
	}
	r := result{Date: time.Now().UTC().Format("2006-01-02"), Commit: commit(),
		Machine: cpuinfo.ModelName(), What: what, Over: *over}
	var err error
	switch what {
	case "swaps":
		r.Result, err = swaps(*during, *clients, *over)
	case "stops":
		r.Result, err = stops(or(*count, 1000), *clients, *over)
	case "overload":
		r.Result, err = overload(*during, *over)
	case "week":
		r.Over = "none"
		r.Result, err = week(or(*count, 10_000_000), *clients)
	case "idle":
		r.Result, err = idle(or(*count, 20), min(*during, 20*time.Second))
	case "cold":
		r.Over = "http"
		r.Result, err = cold(or(*count, 20))
	default:
		err = fmt.Errorf("%s: give swaps, stops, overload, week, idle or cold", what)
	}
	if err != nil {
		fatal(err)
	}
	r.OK = r.Result.ok()
	text, _ := json.MarshalIndent(r, "", "  ")
	fmt.Println(string(text))
	if !r.OK {
		os.Exit(1)
	}
}

func or(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// commit is that of the folder in which the program runs, "" where there is none.
func commit() string {
	out, _ := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	return strings.TrimSpace(string(out))
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "life:", err)
	os.Exit(2)
}
