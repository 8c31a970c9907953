//go:build unix

package jobs

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// crashDir names the folder to a process that is to be killed.
const crashDir = "WEIR_TEST_CRASH_DIR"

// TestMain makes the test's own program the one that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := handInForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The jobs of the processes that are killed: each has a number, its key, and as many rows as makes.
const (
	keys      = 8
	crashRows = 40
)

// crashFile is the file of a job with a number: rows that no other job has.
func crashFile(n int) ([]byte, *tensor.Tensor) {
	x := numbers(crashRows + n)
	for i := range tensor.As[float32](x) {
		tensor.As[float32](x)[i] += float32(1000 * n)
	}
	var b bytes.Buffer
	if err := zipped(&b, "x", x); err != nil {
		panic(err)
	}
	return b.Bytes(), x
}

// handInForEver runs the jobs of a folder, and hands in the same ones again and again.
func handInForEver(dir string) error {
	d := &doubler{count: map[float32]int{}}
	j, end, err := serve(dir, d.source("double", 1))
	if err != nil {
		return err
	}
	defer end()
	fmt.Println("ready")
	for {
		n := rand.IntN(keys)
		file, _ := crashFile(n)
		if _, _, err := j.Make(context.Background(), Asked{Key: fmt.Sprint(n), Model: "double",
			Size: -1}, bytes.NewReader(file)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// serve goes on with the jobs of a folder.
func serve(dir string, sources ...server.Source) (j *Jobs, end func(), err error) {
	state, err := store.Open(context.Background(), dir, store.Options{}, audit.Room, auth.Room,
		Room)
	if err != nil {
		return nil, nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	s, err := server.New(server.Options{Log: quiet, Batch: 1})
	if err == nil {
		err = s.LoadAll(context.Background(), sources)
	}
	if err == nil {
		j, err = Open(context.Background(), Options{Store: state, Server: s, Log: quiet,
			Part: time.Nanosecond, Attempts: 1 << 30})
	}
	return j, func() {
		j.Close(context.Background())
		_ = errors.Join(s.Close(), state.Close()) // the process ends
	}, err
}

// TestCrash kills a server that runs jobs, at any point of it, and hands the same jobs in again and
// again meanwhile: there is one job of a key, with one result of each row, and no blob that nobody
// names. With WEIR_LONG=N, N are killed; 1 stands for 10,000.
func TestCrash(t *testing.T) {
	times := 12
	if n, err := strconv.Atoi(os.Getenv("WEIR_LONG")); err == nil && n > 1 {
		times = n
	} else if err == nil {
		times = 10_000
	}
	dir, asked, rows, done := t.TempDir(), 0, 0, 0
	for i := range times {
		n, err := crash(dir)
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		asked += n
		if i%50 == 49 || i == times-1 {
			r := finishAll(t, dir)
			rows, done, dir = rows+r, done+keys, t.TempDir()
		}
	}
	t.Logf("%d kills, %d times a job was handed in, %d jobs with %d rows", times, asked, done, rows)
}

// crash starts a process that runs jobs, kills it at some time, and returns how many requests it
// had answered.
func crash(dir string) (answered int, err error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), crashDir+"="+dir)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	if err := c.Start(); err != nil {
		return 0, err
	}
	time.AfterFunc(time.Duration(rand.IntN(250_000))*time.Microsecond, func() {
		_ = c.Process.Kill()
	})
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return max(0, bytes.Count(out.Bytes(), []byte("\n"))-1), nil
	}
	return 0, fmt.Errorf("it ended by itself: %v", err)
}

// finishAll hands in all jobs once more, lets them come to their ends, and holds their results.
func finishAll(t *testing.T, dir string) (rows int) {
	t.Helper()
	d := &doubler{count: map[float32]int{}}
	p := begin(t, dir, Options{}, d.source("double", 1))
	p.rested(t)
	ids := map[int64]bool{}
	for n := range keys {
		file, x := crashFile(n)
		j, _, err := p.jobs.Make(t.Context(), Asked{Key: fmt.Sprint(n), Model: "double", Size: -1},
			bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		ids[j.ID] = true
		p.ended(t, j.ID, Done)
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] *= 2
		}
		if got := p.result(t, j.ID)["y"]; !tensor.Equal(got, x) {
			t.Errorf("the result of job %d is %v, want %v", j.ID, got, x)
		}
		rows += x.Shape[0]
	}
	if n := p.count(t); n != keys || len(ids) != keys {
		t.Errorf("%d keys have %d jobs, and there are %d", keys, len(ids), n)
	}
	var digests []store.Digest
	if err := p.state.Read(t.Context(), func(tx *sql.Tx) error {
		list, err := query(tx, "")
		for _, j := range list {
			digests = append(digests, j.Result)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p.left(t, digests...)
	p.end(t)
	return rows
}

// zipped writes a file with one array.
func zipped(b *bytes.Buffer, name string, x *tensor.Tensor) error {
	w := zip.NewWriter(b)
	to, err := w.Create(name + suffix)
	if err == nil {
		err = npy.Write(to, x)
	}
	return errors.Join(err, w.Close())
}
