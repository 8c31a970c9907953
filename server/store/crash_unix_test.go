//go:build unix

package store

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashDir names the folder to a process that is to be killed.
const crashDir = "WEIR_TEST_CRASH_DIR"

// TestMain makes the test's own program the one that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pairs is a room in which a transaction writes two rows, one of which names a blob.
var pairs = Room{Name: "pairs", Migrations: []string{
	"CREATE TABLE pairs_a (n INTEGER PRIMARY KEY, digest TEXT NOT NULL) STRICT;" +
		"CREATE TABLE pairs_b (n INTEGER PRIMARY KEY, filler TEXT NOT NULL) STRICT",
}, Blobs: []string{"SELECT digest FROM pairs_a"}}

// content is the blob of a number.
func content(n int) string { return strings.Repeat(fmt.Sprint(n, " "), n%1000) }

// writeForever writes one pair after another, and prints the number of each once that is said to
// be on the disk.
func writeForever(dir string) error {
	s, err := Open(context.Background(), dir, Options{}, pairs)
	if err != nil {
		return err
	}
	var n int
	err = s.Read(context.Background(), func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT coalesce(max(n), 0) FROM pairs_a").Scan(&n)
	})
	for err == nil {
		n++
		var p *Part
		if p, err = s.Blobs().Stage(strings.NewReader(content(n))); err != nil {
			break
		}
		err = s.Keep(context.Background(), p, func(tx *sql.Tx) error {
			_, err := tx.Exec("INSERT INTO pairs_a VALUES (?, ?)", n, p.Digest)
			if err == nil {
				_, err = tx.Exec("INSERT INTO pairs_b VALUES (?, ?)", n,
					strings.Repeat("x", n%7000))
			}
			return err
		})
		if err == nil {
			_, err = fmt.Println(n)
		}
	}
	return err
}

// checkAll is checkPairs of all pairs; a blob that none of them names is an error, too.
func checkAll(s *Store) (n int, err error) {
	blobs, digests := 0, map[Digest]bool{}
	if err := s.Blobs().Each(func(Digest, int64) error { blobs++; return nil }); err != nil {
		return 0, err
	}
	n, err = checkPairs(s, 0, digests)
	if err == nil && len(digests) != blobs {
		err = fmt.Errorf("%d blobs for %d digests", blobs, len(digests))
	}
	return n, err
}

// checkPairs returns how many pairs there are, of which so many were checked before, and adds the
// digests of the others; that one of those is missing or torn, or that its blob is, is an error.
func checkPairs(s *Store, before int, digests map[Digest]bool) (n int, err error) {
	n = before
	err = s.Read(context.Background(), func(tx *sql.Tx) error {
		rows, err := tx.Query("SELECT a.n, b.n, a.digest FROM (SELECT * FROM pairs_a WHERE n > ?)"+
			" a FULL JOIN (SELECT n FROM pairs_b WHERE n > ?) b USING (n) ORDER BY 1", n, n)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			n++
			var a, b sql.NullInt64
			var d Digest
			if err := rows.Scan(&a, &b, &d); err != nil {
				return err
			}
			if a.Int64 != int64(n) || b.Int64 != int64(n) {
				return fmt.Errorf("row %d is %d and %d", n, a.Int64, b.Int64)
			}
			digests[d] = true
			if d != DigestOf([]byte(content(n))) {
				return fmt.Errorf("row %d has the digest %s", n, d)
			}
			if err := s.Blobs().Verify(d); err != nil {
				return fmt.Errorf("row %d: %w", n, err)
			}
		}
		return rows.Err()
	})
	return n, err
}

// TestOwnersAlone: what the state has is for the eyes of its owner.
func TestOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(t.Context(), dir, Options{}, pairs)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir,
		filepath.Join(dir, fileName): 0o600, filepath.Join(dir, blobsName): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

// checkEach is after how many kills all is checked, and a folder is begun anew. After the others it
// is what was written since, so that the test takes as long for each kill.
const checkEach = 25

// TestCrash kills a process that writes, at any point of it: all that it said to be written is
// there, and nothing that is there is torn. With WEIR_LONG=N, N are
// killed; 1 stands for 10,000.
func TestCrash(t *testing.T) {
	times := 25
	if n, err := strconv.Atoi(os.Getenv("WEIR_LONG")); err == nil && n > 1 {
		times = n
	} else if err == nil {
		times = 10_000
	}
	dir, before, lost, all := t.TempDir(), 0, 0, 0
	for i := range times {
		said, err := kill(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), dir, Options{}, pairs)
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		var n int
		whole := i%checkEach == checkEach-1 || i == times-1
		if whole {
			n, err = checkAll(s)
			err = errors.Join(err, check(t.Context(), s.writer))
		} else {
			n, err = checkPairs(s, before, map[Digest]bool{})
		}
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if n < max(said, before) || n > max(said, before)+1 {
			t.Fatalf("kill %d: %d pairs were said to be there, and %d before; %d are", i, said,
				before, n)
		}
		if n > said {
			lost++
		}
		if before = n; whole {
			all += n
			dir, before = t.TempDir(), 0
		}
	}
	t.Logf("%d pairs; %d of %d kills fell between a commit and the word of it", all, lost, times)
}

// kill starts a process that writes, kills it at some time, and returns the last number that it
// printed.
func kill(dir string) (said int, err error) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), crashDir+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	first := rand.IntN(20) // kills fall into the start and its recovery, too
	deadly := time.AfterFunc(time.Duration(rand.IntN(40_000))*time.Microsecond, func() {
		if first == 0 {
			_ = c.Process.Kill()
		}
	})
	defer deadly.Stop()
	lines := bufio.NewScanner(out)
	for k := 1; lines.Scan(); k++ {
		if said, err = strconv.Atoi(lines.Text()); err != nil {
			return 0, fmt.Errorf("it printed %q", lines.Text())
		}
		if k == first {
			time.AfterFunc(time.Duration(rand.IntN(1500))*time.Microsecond, func() {
				_ = c.Process.Kill()
			})
		}
	}
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return said, nil
	}
	return 0, fmt.Errorf("it ended by itself: %v", err)
}
