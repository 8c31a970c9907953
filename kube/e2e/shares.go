package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// most is how far a share may be from what was claimed: two hundredths of the device.
const most = 0.02

// shares measures what each pod has of its device by the kernels that its own program counts, while
// the driver is killed again and again.
func (t *tester) shares(ctx context.Context) error {
	pods, err := t.pods(ctx)
	if err != nil {
		return err
	}
	before, err := t.progress(ctx)
	if err != nil {
		return err
	}
	t.atFirst, t.before = pods, before
	begun := time.Now()
	if err := t.killDriver(ctx); err != nil {
		return err
	}
	if t.after, err = t.progress(ctx); err != nil {
		return err
	}
	select {
	// Programs tell of their work four times a second.
	case <-time.After(max(3*time.Second, t.window-time.Since(begun))):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := t.progress(ctx)
	if err != nil {
		return err
	}
	return t.judge(before, after)
}

// judge holds what pods had between two times against what they claimed, by devices: of the time
// in which kernels ran. What passes between the turns of programs is nobody's, and on a machine
// that is busy with other things it is more.
func (t *tester) judge(before, after map[string]progress) error {
	var all error
	for part := range slices.Chunk(shares, len(shares)/2) {
		had, sum := make([]float64, len(part)), 0.0
		for i := range part {
			b, a := before[part[i].name], after[part[i].name]
			had[i] = float64(a.Kernels-b.Kernels) * kernelUS * 1e3 / float64(max(1, a.NS-b.NS))
			sum += had[i]
		}
		t.say("kernels ran on a device for %.3f of the time", sum)
		for i := range part {
			want := float64(part[i].compute) / 1000
			got := had[i] / sum
			t.say("pod %s: %.3f of that, claimed %.3f", part[i].name, got, want)
			if !(math.Abs(got-want) <= most) {
				all = errors.Join(all, fmt.Errorf("pod %s had %.3f of its device, claimed %.3f",
					part[i].name, got, want))
			}
		}
	}
	return all
}

// progress is what each of the eight says last.
func (t *tester) progress(ctx context.Context) (map[string]progress, error) {
	pods, err := t.pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]progress{}
	for i := range shares {
		p := pods[shares[i].name]
		last, _, err := t.latest(&p, 0)
		if err != nil {
			return nil, err
		}
		all[shares[i].name] = last
	}
	return all, nil
}

// killDriver ends the driver's process so often, each time once the one before is being served by
// the kubelet again.
func (t *tester) killDriver(ctx context.Context) error {
	last := 0
	for i := range t.restarts {
		err := t.until(ctx, "a driver that answers, after "+strconv.Itoa(i)+" kills",
			func() (bool, error) {
				pid, err := t.process("/weir-node", "run")
				if err != nil || pid == 0 || pid == last || !t.serves() {
					return false, err
				}
				last = pid
				return true, nil
			})
		if err != nil {
			return err
		}
		if err := syscall.Kill(last, syscall.SIGKILL); err != nil {
			return err
		}
	}
	t.say("the driver was killed %d times", t.restarts)
	return nil
}

// serves reports whether the driver has the socket that the kubelet calls.
func (t *tester) serves() bool {
	return dials(filepath.Join(t.node.Kubelet, "plugins", "gpu.weir.dev", "dra.sock"))
}

// process is the number of a process of weir's pod on this node, by how its command begins; 0:
// there is none.
func (t *tester) process(words ...string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	want := strings.Join(words, "\x00") + "\x00"
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.HasPrefix(string(text), want) {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil && t.own(pid) {
			return pid, nil
		}
	}
	return 0, nil
}

// own reports whether a process sees this test's runtime folder: others may test here too.
func (t *tester) own(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	return err == nil && strings.Contains(string(text), " "+t.runtimeDir()+" ")
}

// unharmed holds that since the first kill no container ended, no program saw an error, and each
// has had kernels after the last one.
func (t *tester) unharmed(ctx context.Context) error {
	pods, err := t.pods(ctx)
	if err != nil {
		return err
	}
	harmed, worst := 0, 0.0
	var all error
	for i := range shares {
		gap, err := t.harm(shares[i].name, pods[shares[i].name])
		if worst = max(worst, gap); err != nil {
			harmed++
			all = errors.Join(all, err)
		}
	}
	t.say("%d pods harmed by %d kills of the driver; the longest without a kernel was %.0f ms",
		harmed, t.restarts, worst)
	return all
}

// harm is the error of a pod that was harmed, and its longest time without a kernel.
func (t *tester) harm(name string, now podItem) (gap float64, err error) {
	last, gap, err := t.latest(&now, t.before[name].NS)
	then := t.atFirst[name]
	switch {
	case err != nil:
		return gap, err
	case now.Metadata.UID != then.Metadata.UID || now.Status.Phase != "Running" ||
		len(now.Status.ContainerStatuses) != 1 || len(then.Status.ContainerStatuses) != 1:
		return gap, fmt.Errorf("pod %s is %s", name, now.Status.Phase)
	case now.Status.ContainerStatuses[0].RestartCount !=
		then.Status.ContainerStatuses[0].RestartCount:
		return gap, fmt.Errorf("pod %s was started again", name)
	case last.Kernels <= t.after[name].Kernels:
		return gap, fmt.Errorf("pod %s has had no kernel since the driver was last killed", name)
	}
	return gap, nil
}

// agentGone stops the agent, so that it answers nobody, and lets it go on.
func (t *tester) agentGone(ctx context.Context) error {
	pid, err := t.process("/weir", "agent")
	if err != nil || pid == 0 {
		return errors.Join(err, errors.New("no agent runs"))
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	err = t.until(ctx, "taints", func() (bool, error) {
		found, err := t.published(ctx)
		return found["cuda-0"] == "gpu.weir.dev/agent-gone" &&
			found["cuda-1"] == "gpu.weir.dev/agent-gone", err
	})
	var text string
	if err == nil {
		text, err = t.event(ctx, eventsPath, "weir-e2e", "AgentGone", "weir-node")
	}
	if err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil {
		return err
	}
	t.say("%s", text)
	if _, err := t.event(ctx, eventsPath, "weir-e2e", "AgentBack"); err != nil {
		return err
	}
	return t.until(ctx, "no taints", func() (bool, error) {
		found, err := t.published(ctx)
		return found["cuda-0"] == "" && found["cuda-1"] == "", err
	})
}
