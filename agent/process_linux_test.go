package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// programVariable makes the test binary a program under a share: it holds the socket of an agent.
const programVariable = "WEIR_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(programVariable); dir != "" {
		if err := beProgram(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beProgram attaches, holds memory and the device, and waits to be killed, for as long as the test
// has its standard input open: the runtime ends a program all of whose goroutines sleep.
func beProgram(dir string) error {
	token, err := wire.ParseToken(os.Getenv("WEIR_JOB"))
	if err != nil {
		return err
	}
	c, err := Dial(dir)
	if err != nil {
		return err
	}
	if err := c.send(
		wire.NewHello(wire.Hello{Token: token, Version: wire.Version, Slot: wire.NoSlot}, 0),
		"",
		nil,
	); err != nil {
		return err
	}
	answer, _, file, err := c.receive()
	if err != nil {
		return err
	}
	page, err := wire.MapPage(file)
	if err != nil {
		return err
	}
	slot := page.Slot(answer.(wire.Welcome).Slot)
	slot.MemUsedBytes.Store(1 << 20)
	slot.Waiting.Add(1)
	if err := c.send(
		wire.NewSignal(wire.KindWant, answer.(wire.Welcome).Slot, 0),
		"",
		nil,
	); err != nil {
		return err
	}
	for !wire.IsOpen(page.Header().Gate.Load()) {
		_ = page.WaitGate(page.Header().Gate.Load(), 50*time.Millisecond)
	}
	slot.Launches.Add(1)
	slot.InflightNS.Store(uint64(time.Hour))
	slot.Waiting.Store(0)
	fmt.Println("running")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestKill kills real processes, which hold the device: another job has it because their end is
// seen. With WEIR_LONG the time that it waits is held, too.
func TestKill(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, nil)
	a := startAgent(t, c)
	_, g := controller(t, dir, share.Job{Name: "victim", Share: share.Share{Memory: 1 << 30}})
	_, h := controller(t, dir, share.Job{Name: "heir", Share: share.Share{Memory: 1 << 30}})
	heir := begin(t, s, dir, h.Token)
	var took []time.Duration
	for range 7 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), programVariable+"="+dir, "WEIR_JOB="+g.Token.String())
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
		j := a.Snapshot().Devices[0].Jobs[0]
		if len(j.Processes) != 1 || j.Processes[0].PID != uint32(cmd.Process.Pid) ||
			j.MemoryUsedBytes != 1<<20 {
			t.Errorf("%+v", j)
		}
		passed := make(chan bool, 1)
		go func() { passed <- heir.pass(20 * time.Second) }()
		time.Sleep(2 * time.Millisecond)
		from := time.Now()
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(
			t,
			"the slot is free",
			func() bool { return len(a.Snapshot().Devices[0].Jobs[0].Processes) == 0 },
		)
		if !<-passed {
			t.Fatal("the heir never got the device")
		}
		took = append(took, time.Since(from))
		var killed *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &killed) || killed.ExitCode() != -1 {
			t.Errorf("it was not killed: %v", err)
		}
		heir.idle()
	}
	slices.Sort(took)
	t.Logf("slot and device free after %v, at most %v", took[len(took)/2], took[len(took)-1])
	if long && took[len(took)/2] > 10*time.Millisecond*slack {
		t.Errorf("it took %v", took)
	}
}

// TestFindProcess watches a process by its number and start time.
func TestFindProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	pid := uint32(cmd.Process.Pid)
	st, err := readStat(pid)
	if err != nil || st.exiting || st.start == 0 {
		t.Fatalf("%+v, %v", st, err)
	}
	system := newSystem()
	if _, err := system.find(pid, st.start+1); err == nil {
		t.Error("a process with another start time was found")
	}
	p, err := system.find(pid, st.start)
	if err != nil {
		t.Fatal(err)
	}
	if !p.alive() || p.start() != st.start {
		t.Error("it seems dead")
	}
	_ = cmd.Process.Kill()
	select {
	case <-p.done():
	case <-time.After(20 * time.Second):
		t.Fatal("its end was not seen")
	}
	if p.alive() {
		t.Error("it seems alive")
	}
	_ = cmd.Wait()
	p.forget()
	for _, pid := range []uint32{0, 1 << 31, ^uint32(0)} {
		if _, err := system.find(pid, 1); err == nil {
			t.Errorf("process %d was found", pid)
		}
	}
}

// FuzzStat reads what no kernel writes.
func FuzzStat(f *testing.F) {
	if text, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(text)
	}
	f.Add([]byte("1 (a) b) c) R 1 1"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
		if st, err := parseStat(text); err == nil && st.start == 0 && len(text) < 20 {
			t.Errorf("%q gave %+v", text, st)
		}
	})
}
