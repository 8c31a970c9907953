package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirgpu/weir/onnx"
)

// inputOf is the name of a model's input.
func inputOf(model string) (string, error) {
	m, err := onnx.Open(model, onnx.Options{})
	if err != nil {
		return "", err
	}
	name := m.Graph.Inputs[0].Name
	return name, m.Close()
}

func replaceInput(text, name string) string { return strings.Replace(text, "INPUT", name, 1) }

// digests holds that all numbers of processes come to one digest, and so do those that are killed.
func (b *bench) digests() error {
	path, err := b.recipe("digits", 64, 4, 1000)
	if err != nil {
		return err
	}
	same := func(what, digest string) {
		differs := 0.0
		if b.Digests = append(b.Digests, digest); digest != b.Digests[0] {
			differs = 1
		}
		b.Claims.Check(what+": another digest", differs, 0, true)
	}
	for processes := 1; processes <= 4; processes++ {
		for threads := 1; threads <= 2; threads++ {
			res, err := b.train(path, processes, threads)
			if err != nil {
				return err
			}
			same(fmt.Sprintf("%d processes, %d threads", processes, threads), res.Digest)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = append(text, "checkpoint: {to: run, steps: 5}\n"...)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	for b.Kills < b.kills {
		if err := b.kill(path); err != nil {
			return err
		}
	}
	res, err := b.train(path, 2, 1, "--resume")
	if err != nil {
		return err
	}
	same(fmt.Sprint("killed ", b.Kills, " times"), res.Digest)
	return nil
}

// kill resumes a training by two to four processes, and kills a worker or the leader once it has
// kept a checkpoint more.
func (b *bench) kill(path string) error {
	cmd := b.command(path, 2+b.Kills%3, 1+b.Kills/3%2, "--resume")
	before := b.newest()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for b.newest() == before {
		select {
		case err := <-ended:
			return fmt.Errorf("the training ended after %d kills: %w", b.Kills, err)
		case <-time.After(time.Millisecond):
		}
	}
	victim, err := strconv.Atoi(b.children(cmd.Process.Pid)[0])
	if b.Kills%2 == 0 {
		victim = cmd.Process.Pid
	}
	if err != nil {
		return err
	}
	b.Kills++
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return err
	}
	if err := <-ended; err == nil {
		return fmt.Errorf("process %d was killed, and the training ended well", victim)
	}
	return nil
}

// children are the processes that a process has started.
func (b *bench) children(pid int) []string {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range threads {
		text, err := os.ReadFile(list)
		if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
			return words
		}
	}
	return []string{"none"}
}

// newest is the name of the newest checkpoint.
func (b *bench) newest() string {
	list, _ := filepath.Glob(filepath.Join(b.dir, "run", "step-*.safetensors"))
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}
