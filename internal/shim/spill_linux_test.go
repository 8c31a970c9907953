package shim

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// spilling is a program whose memory has so much room on the host, and a folder for the rest.
func spilling(t *testing.T, host uint64, folder string, args ...string) (*warden, *running,
	func() sum) {
	t.Helper()
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(host)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "moved", args...)
	r.Env = append(r.Env, "WEIR_SPILL="+folder)
	in := startMoved(t, w, r)
	s := w.page.Slot(0)
	w.await("the program launches nothing", func() bool { return s.Launches.Load() > 2 })
	return w, r, func() sum { return r.found(t, in) }
}

// away orders the memory away until it is: the program may be busy.
func (w *warden) away() wire.Moved {
	w.t.Helper()
	for {
		m := w.order(true, 1)[0]
		if m.Code != wire.MovedBusy {
			return m
		}
		w.order(false, 1)
	}
}

// spillFile opens the file without a name that a process has its memory in.
func spillFile(t *testing.T, pid int, folder string) *os.File {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		to, err := os.Readlink(name)
		if err == nil && strings.HasPrefix(to, folder+"/") {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			return f
		}
	}
	t.Fatal("the process has no file in the folder")
	return nil
}

// TestOtherDisks spills to file systems that can less than those of today, or have no room: all of
// it is written before any memory goes, or none goes and the errno is told.
func TestOtherDisks(t *testing.T) {
	compiled(t)
	disk, err := keptC("libdisk.so", []string{"-shared", "-fPIC"}, "testdata/disk.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  []string
		want syscall.Errno
	}{
		{[]string{"DISK=full"}, syscall.ENOSPC},
		{[]string{"DISK=old"}, 0},
		{[]string{"DISK=old", fmt.Sprint("DISK_HOLDS=", 9<<20)}, syscall.ENOSPC},
		{[]string{"DISK=old", "DISK_LOSES=yes"}, syscall.EIO},
	} {
		t.Run(strings.Join(c.env, ","), func(t *testing.T) {
			folder := t.TempDir()
			w := newWarden(t, 1<<30, 2*time.Millisecond)
			w.movable(0)
			w.gate(true)
			r := onFake(t, w, t.TempDir(), "moved", "2", "6")
			for i, v := range r.Env {
				if strings.HasPrefix(v, "LD_PRELOAD=") {
					r.Env[i] += ":" + disk
				}
			}
			r.Env = append(append(r.Env, "WEIR_SPILL="+folder), c.env...)
			in := startMoved(t, w, r)
			s := w.page.Slot(0)
			w.await("the program launches nothing", func() bool { return s.Launches.Load() > 2 })
			for range 2 {
				m := w.away()
				got := syscall.Errno(m.Result)
				if code := m.Code; got != c.want || (got == 0) != (code == wire.MovedAll) ||
					got != 0 && code != wire.MovedSpill {
					t.Errorf("%+v, want %v", m, c.want)
				}
				if away := s.AwayBytes.Load(); (away != 0) != (c.want == 0) ||
					away != s.SpilledBytes.Load() {
					t.Errorf("%d bytes are away, %d spilled", away, s.SpilledBytes.Load())
				}
				empty(t, folder)
				if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
					t.Errorf("not back: %+v", m)
				}
			}
			if sum := r.found(t, in); sum.Wrong != 0 || sum.Compared == 0 {
				t.Errorf("%+v", sum)
			}
		})
	}
}

// TestProgramTakesTheNumber has a program put a file of its own under the number that the file of
// what was spilled has, as after closefrom(3): while that is empty, it is neither written nor cut
// off, and moves go on; while memory is in it, the bytes are lost, which is said, and no others are
// taken for them.
func TestProgramTakesTheNumber(t *testing.T) {
	folder, own := t.TempDir(), filepath.Join(t.TempDir(), "own")
	const text = "bytes of the program's"
	if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(0)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "moved", "2", "6")
	r.Env = append(r.Env, "WEIR_SPILL="+folder)
	in := startMoved(t, w, r)
	s := w.page.Slot(0)
	w.await("the program launches nothing", func() bool { return s.Launches.Load() > 2 })
	take := func() {
		name := spillFile(t, r.Process.Pid, folder).Name()
		if _, err := fmt.Fprintln(in.(io.Writer), filepath.Base(name), own); err != nil {
			t.Fatal(err)
		}
		w.await("the program takes no number", func() bool {
			to, err := os.Readlink(name)
			return err == nil && to == own
		})
	}
	kept := func() {
		t.Helper()
		if got, err := os.ReadFile(own); err != nil || string(got) != text {
			t.Fatalf("the program's own file has %d bytes: %v", len(got), err)
		}
	}
	for range 2 {
		if m := w.away(); m.Code != wire.MovedAll {
			t.Fatalf("%+v", m)
		}
		kept()
		if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
			t.Fatalf("%+v", m)
		}
		kept()
		take()
	}
	if m := w.away(); m.Code != wire.MovedAll {
		t.Fatalf("%+v", m)
	}
	size := s.SpilledBytes.Load()
	take()
	for range 2 {
		if m := w.order(false, 1)[0]; m.Code != wire.MovedSpill ||
			syscall.Errno(m.Result) != syscall.EBADF || s.AwayBytes.Load() != size {
			t.Errorf("from a file that the program closed: %+v", m)
		}
		kept()
	}
	_ = r.Process.Kill()
	_ = r.Wait()
	if strings.Contains(r.out.String(), `"wrong": `) {
		t.Errorf("it went on: %s", r.out.String())
	}
	empty(t, folder)
}

// empty holds that nothing is left in a folder.
func empty(t *testing.T, folder string) {
	t.Helper()
	if all, err := os.ReadDir(folder); err != nil || len(all) > 0 {
		t.Errorf("left in the folder: %v, %v", all, err)
	}
}

// TestMemorySpills moves memory for a part of which the host has room, and for none of it: the rest
// is in the folder meanwhile, no byte is wrong, and no room stays taken.
func TestMemorySpills(t *testing.T) {
	for _, host := range []uint64{0, 16 << 20, 70 << 20} {
		folder := t.TempDir()
		w, r, ends := spilling(t, host, folder, "4", "20.5")
		s := w.page.Slot(0)
		for range 6 {
			m := w.away()
			spilled, pinned := s.SpilledBytes.Load(), s.HostBytes.Load()
			if m.Code != wire.MovedAll || spilled+pinned != s.AwayBytes.Load() ||
				m.Bytes != spilled+pinned || pinned > host || spilled == 0 {
				t.Fatalf("host of %d: %+v: %d of %d are spilled, %d pinned", host, m, spilled,
					s.AwayBytes.Load(), pinned)
			}
			if info, err := spillFile(t, r.Process.Pid, folder).Stat(); err != nil ||
				info.Size() != int64(spilled) {
				t.Errorf("%d bytes are said to be in a file: %v, %v", spilled, info, err)
			}
			if m := w.order(false, 1)[0]; m.Code != wire.MovedAll || s.SpilledBytes.Load() != 0 {
				t.Fatalf("not back: %+v", m)
			}
			if info, err := spillFile(t, r.Process.Pid, folder).Stat(); err != nil ||
				info.Size() != 0 {
				t.Errorf("the file has %d bytes with all of it back: %v", info.Size(), err)
			}
			launches := s.Launches.Load()
			w.await("it does not go on", func() bool { return s.Launches.Load() > launches+4 })
		}
		empty(t, folder)
		if sum := ends(); sum.Wrong != 0 || sum.Compared == 0 {
			t.Errorf("host of %d: %+v", host, sum)
		}
		empty(t, folder)
	}
}

// TestFullFolder holds that a folder without room moves nothing, says so by errno, and takes
// nothing of the program.
func TestFullFolder(t *testing.T) {
	folder := t.TempDir()
	w, r, ends := spilling(t, 0, folder, "2", "6")
	// A limit of the size of files stands for a full disk, of which a test cannot have one.
	limit := unix.Rlimit{Cur: 4 << 20, Max: 4 << 20}
	if err := unix.Prlimit(r.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	s := w.page.Slot(0)
	for range 3 {
		m := w.away()
		if m.Code != wire.MovedSpill || syscall.Errno(m.Result) != syscall.EFBIG || m.Needs == 0 {
			t.Fatalf("into a full folder: %+v", m)
		}
		if s.AwayBytes.Load() != 0 || s.SpilledBytes.Load() != 0 || s.HostBytes.Load() != 0 {
			t.Errorf("%d bytes are away, %d spilled", s.AwayBytes.Load(), s.SpilledBytes.Load())
		}
		w.order(false, 1)
	}
	if sum := ends(); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
	empty(t, folder)
}

// plain finds so many words none of which wraps around if it is changed a little.
func plain(bytes []byte, words int) int {
	for at := 0; ; at += 4 {
		ok := true
		for i := range words {
			n := binary.NativeEndian.Uint32(bytes[at+4*i:])
			ok = ok && n > 9 && n < 1<<31
		}
		if ok {
			return at
		}
	}
}

// TestDamagedSpill changes what was spilled, cuts it off and puts it right: memory that is not what
// it was does not come back, is told, and does when it is again.
func TestDamagedSpill(t *testing.T) {
	folder := t.TempDir()
	w, r, ends := spilling(t, 0, folder, "2", "6")
	s := w.page.Slot(0)
	if m := w.away(); m.Code != wire.MovedAll {
		t.Fatalf("%+v", m)
	}
	f := spillFile(t, r.Process.Pid, folder)
	size, bytes := s.SpilledBytes.Load(), make([]byte, s.SpilledBytes.Load())
	if _, err := f.ReadAt(bytes, 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(bytes)/2 + 1, len(bytes) - 1} {
		if _, err := f.WriteAt([]byte{bytes[at] ^ 0x10}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if m := w.order(false, 1)[0]; m.Code != wire.MovedDamaged || s.AwayBytes.Load() != size {
			t.Errorf("byte %d is another: %+v, %d of %d are away", at, m, s.AwayBytes.Load(), size)
		}
		w.order(true, 1)
		if _, err := f.WriteAt(bytes[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	// Changes that a sum of the words, of such sums, and so on, does not show.
	for _, by := range [][]uint32{
		{1, ^uint32(0)}, {1, ^uint32(1), 1}, {1, ^uint32(2), 3, ^uint32(0)},
	} {
		at := plain(bytes, len(by))
		changed := slices.Clone(bytes[at : at+4*len(by)])
		for i, n := range by {
			word := changed[4*i:]
			binary.NativeEndian.PutUint32(word, binary.NativeEndian.Uint32(word)+n)
		}
		if _, err := f.WriteAt(changed, int64(at)); err != nil {
			t.Fatal(err)
		}
		if m := w.order(false, 1)[0]; m.Code != wire.MovedDamaged {
			t.Fatalf("%d words are others: %+v", len(by), m)
		}
		w.order(true, 1)
		if _, err := f.WriteAt(bytes, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(size) - 1); err != nil {
		t.Fatal(err)
	}
	if m := w.order(false, 1)[0]; m.Code != wire.MovedSpill ||
		syscall.Errno(m.Result) != syscall.EIO || s.AwayBytes.Load() != size {
		t.Errorf("cut off: %+v", m)
	}
	w.order(true, 1)
	if _, err := f.WriteAt(bytes, 0); err != nil {
		t.Fatal(err)
	}
	if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
		t.Errorf("put right: %+v", m)
	}
	if sum := ends(); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
	if n := strings.Count(r.err.String(), "is not what was written"); n != 1 {
		t.Errorf("said %d times: %s", n, r.err.String())
	}
}

// TestKilledSpill kills a program whose memory is in the folder.
func TestKilledSpill(t *testing.T) {
	folder := t.TempDir()
	w, r, _ := spilling(t, 0, folder, "2", "6")
	if m := w.away(); m.Code != wire.MovedAll {
		t.Fatalf("%+v", m)
	}
	_ = r.Process.Kill()
	_ = r.Wait()
	empty(t, folder)
}

// TestKilledAmidAMove kills a program while a part of its memory is written to the folder, beside
// another of its job: nothing is left, and no byte of the other is wrong.
func TestKilledAmidAMove(t *testing.T) {
	compiled(t)
	disk, err := keptC("libdisk.so", []string{"-shared", "-fPIC"}, "testdata/disk.c")
	if err != nil {
		t.Fatal(err)
	}
	folder, shared := t.TempDir(), t.TempDir()
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.movable(0)
	w.gate(true)
	start := func(stops bool) (*running, io.Closer) {
		r := onFake(t, w, shared, "moved", "2", "6")
		r.Env = append(r.Env, "WEIR_SPILL="+folder)
		for i, v := range r.Env {
			if stops && strings.HasPrefix(v, "LD_PRELOAD=") {
				r.Env[i] += ":" + disk
				r.Env = append(r.Env, fmt.Sprint("DISK_STOPS=", 1<<20))
				break
			}
		}
		return r, startMoved(t, w, r)
	}
	killed, _ := start(true)
	other, in := start(false)
	for i := range 2 {
		w.await("a program launches nothing", func() bool {
			return w.page.Slot(uint32(i)).Launches.Load() > 2
		})
	}
	w.command(true)
	w.await("nothing is written", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", killed.Process.Pid))
		return slices.ContainsFunc(files, func(name string) bool {
			to, err := os.Readlink(name)
			if err != nil || !strings.HasPrefix(to, folder+"/") {
				return false
			}
			info, err := os.Stat(name)
			return err == nil && info.Size() > 0
		})
	})
	_ = killed.Process.Kill()
	_ = killed.Wait()
	m := w.answers(1)[0]
	for m.Code == wire.MovedBusy {
		w.order(false, 1)
		m = w.order(true, 1)[0]
	}
	if m.Code != wire.MovedAll {
		t.Errorf("beside who was killed: %+v", m)
	}
	empty(t, folder)
	if m := w.order(false, 1)[0]; m.Code != wire.MovedAll {
		t.Errorf("not back: %+v", m)
	}
	if sum := other.found(t, in); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
	empty(t, folder)
}

// TestFolderIsGone removes the folder while memory is in it, and puts a file in its place: the
// memory has a file without a name, comes back unchanged, and goes there again.
func TestFolderIsGone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "spill")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	w, _, ends := spilling(t, 0, folder, "2", "6")
	s := w.page.Slot(0)
	for i := range 3 {
		if m := w.away(); m.Code != wire.MovedAll || s.SpilledBytes.Load() == 0 {
			t.Fatalf("move %d: %+v, %d bytes are spilled", i, m, s.SpilledBytes.Load())
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := os.WriteFile(folder, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if m := w.order(false, 1)[0]; m.Code != wire.MovedAll || s.AwayBytes.Load() != 0 {
			t.Fatalf("move %d: not back: %+v", i, m)
		}
	}
	if sum := ends(); sum.Wrong != 0 || sum.Compared == 0 {
		t.Errorf("%+v", sum)
	}
}
