package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a scheduler that runs.
type process struct {
	cmd *exec.Cmd
	log *os.File
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.log.Close()
}

func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// spent is the processors' time that the scheduler took so far.
func (p *process) spent() (time.Duration, error) { return spent(p.cmd.Process.Pid) }

// start runs weir-scheduler with arguments of the plug-in.
func (b *bench) start(ctx context.Context, args any) (*process, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return b.startAs(ctx, weirs, b.scheduler, fmt.Sprintf(profileOfWeir, text))
}

// Names of schedulers.
const (
	weirs  = "weir-scheduler"
	stocks = "stock-scheduler"
)

// startStock runs Kubernetes' own scheduler, as it is but for its name and for a client as fast as
// the other's.
func (b *bench) startStock(ctx context.Context) (*process, error) {
	if b.stock == "" {
		return nil, errors.New("-stock: want Kubernetes' scheduler")
	}
	return b.startAs(ctx, stocks, b.stock, "profiles: [{schedulerName: "+stocks+"}]\n")
}

func (b *bench) startAs(ctx context.Context, name, program, profile string) (*process, error) {
	path := filepath.Join(b.dir, name+".yaml")
	err := os.WriteFile(path, fmt.Appendf(nil, configuration, b.kubeconfig, profile), 0o600)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(os.TempDir(), name+"-bench.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--config="+path, "--secure-port=0")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, log}, nil
}

// configuration is what all schedulers have: a way to the server, at a rate of calls that none of
// them comes near.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 10000}
leaderElection: {leaderElect: false}
%s`

// profileOfWeir is the shipped one with other arguments of the plug-in.
const profileOfWeir = `percentageOfNodesToScore: 100
profiles:
  - schedulerName: weir-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Weir, weight: 10000}]
        disabled: [{name: DynamicResources}, {name: PrioritySort}]
      postFilter: {enabled: [{name: Weir}]}
    pluginConfig: [{name: Weir, args: %s}]
`

// ticks are how many make a second in what /proc tells of processes (proc(5): USER_HZ).
const ticks = 100

// spent is the processors' time that a process of this machine took so far.
func spent(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Of what follows the name in parentheses, utime and stime are the 12th and 13th.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / ticks, errors.Join(err, err2)
}

// serverSpent is the processors' time that the API server took so far; 0 where it is not of this
// machine.
func (b *bench) serverSpent() (time.Duration, error) {
	u, err := url.Parse(b.server)
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(text, []byte("\x00--secure-port="+u.Port()+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return 0, err
		}
		return spent(pid)
	}
	return 0, nil
}
