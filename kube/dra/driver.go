package dra

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/weirgpu/weir/share"
)

// Agent keeps jobs on GPUs. Keep and Release can be repeated: what is so already is no error.
type Agent interface {
	// Keep has the agent keep a job on a GPU until it is released, with the job's token.
	Keep(ctx context.Context, d Device, j Job) error
	// Release ends that. The programs of the job have ended.
	Release(ctx context.Context, id string) error
	// Kept are the IDs of all jobs that are kept for claims.
	Kept(ctx context.Context) ([]string, error)
}

// Config says where a driver works.
type Config struct {
	// Dir is the driver's own folder, which outlives the machine's restart. It is there.
	Dir string
	// CDI is the folder of CDI specifications, such as /var/run/cdi. It is there.
	CDI   string
	Node  Node
	Agent Agent
	// Log is told what happens; nil: nothing is logged.
	Log *slog.Logger

	// step is called between any two writes; nil: it is not.
	step func(string)
	// soft leaves out what makes writes outlive a loss of power.
	soft bool
}

// Driver gives claims their jobs, and takes them back.
type Driver struct {
	c Config

	mu      sync.Mutex
	book    *book
	devices map[string]Device
}

// Prepared is what a container is given for one result.
type Prepared struct {
	Request, Pool, Device, ShareID string
	CDI                            []string
}

// New opens the book of a driver's folder. One that cannot be read is put aside, under the name
// claims.json.bad, and said in the log: pods go on, as the agent keeps their jobs, and what is kept
// for a claim goes when the kubelet gives the claim back.
func New(c Config) (*Driver, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.step == nil {
		c.step = func(string) {}
	}
	b, err := openBook(c.Dir, writer{c.step, c.soft})
	if errors.Is(err, ErrBook) {
		c.Log.Error("book of claims put aside", "error", err)
		err = os.Rename(b.path, b.path+".bad")
	}
	if err != nil {
		return nil, fmt.Errorf("driver: %w", err)
	}
	return &Driver{c: c, book: b, devices: map[string]Device{}}, nil
}

// SetDevices says which devices there are from here on; those that are sick are among them.
func (d *Driver) SetDevices(devices []Device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.devices = map[string]Device{}
	for _, v := range devices {
		d.devices[v.Name] = v
	}
}

// Recover brings agent, CDI folder and book together, when the driver begins and when the agent is
// another one: what was prepared is kept and its specification is there, and what was not is taken
// back. All that can be done is done; the error is of what could not be.
func (d *Driver) Recover(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all error
	for _, uid := range slices.Sorted(maps.Keys(d.book.entries)) {
		e := d.book.entries[uid]
		var err error
		if e.State == prepared {
			err = d.give(ctx, uid, e)
		} else {
			err = d.takeBack(ctx, uid, e)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("claim %s: %w", e.Claim, err))
		}
	}
	return all
}

// Prepare gives a claim its jobs and writes how containers come into them. Doing it again changes
// nothing, also after a kill. What could not be given wholly is not given at all.
func (d *Driver) Prepare(ctx context.Context, c Claim) ([]Prepared, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	jobs, err := c.jobs(d.devices)
	if err != nil {
		return nil, err
	}
	e, known := d.book.entries[c.UID]
	if known && (e.State != prepared || !slices.EqualFunc(e.Jobs, jobs, Job.same)) {
		// Nobody has it, or the scheduler has given it other devices since.
		if err := d.takeBack(ctx, c.UID, e); err != nil {
			return nil, fmt.Errorf("%v: %w", &c, err)
		}
		known = false
	}
	if !known {
		if e, err = d.begin(&c, jobs); err != nil {
			return nil, fmt.Errorf("%v: %w", &c, err)
		}
	}
	if err := d.give(ctx, c.UID, e); err != nil {
		if !known {
			err = errors.Join(err, d.takeBack(ctx, c.UID, e))
		}
		return nil, fmt.Errorf("%v: %w", &c, err)
	}
	if e.State != prepared {
		e.State = prepared
		if err := d.book.set(c.UID, e); err != nil {
			return nil, fmt.Errorf("%v: %w", &c, err)
		}
		d.c.Log.Info("claim prepared", "claim", c.Namespace+"/"+c.Name, "uid", c.UID)
	}
	return d.answer(c.UID, e.Jobs), nil
}

// begin writes a new claim down, before anything is given.
func (d *Driver) begin(c *Claim, jobs []Job) (entry, error) {
	e := entry{Claim: c.Namespace + "/" + c.Name, State: preparing, Jobs: jobs}
	if err := d.roomOnCPU(jobs); err != nil {
		return e, err
	}
	for i := range jobs {
		var token [16]byte
		if _, err := rand.Read(token[:]); err != nil {
			return e, err
		}
		jobs[i].Token = hex.EncodeToString(token[:])
	}
	return e, d.book.set(c.UID, e)
}

// roomOnCPU refuses what the CPUs have no room for beside what is given out of them. Of GPUs the
// agent knows.
func (d *Driver) roomOnCPU(jobs []Job) error {
	for i := range jobs {
		v := d.devices[jobs[i].Device]
		if !v.CPU {
			continue
		}
		had, used := d.given(v.Name)
		own, part := total(jobs[:i], v.Name)
		left, compute := v.Memory-had-own, 1-used-part
		if s := jobs[i].Share; s.Memory > left || s.Compute > compute+1e-9 {
			return fmt.Errorf("wants %v and %.3g of %s, of which %v and %.3g are left: claims "+
				"that the cluster takes for ended may have containers that still end; it is "+
				"tried again", s.Memory, s.Compute, v.Name, left, compute)
		}
	}
	return nil
}

// give has the agent keep the jobs of a claim, and writes its specification.
func (d *Driver) give(ctx context.Context, uid string, e entry) error {
	for _, j := range e.Jobs {
		v, ok := d.devices[j.Device]
		if !ok {
			return fmt.Errorf("device %s: the node's agent has none of this name", j.Device)
		}
		if j.CPU || j.Admin {
			continue
		}
		if err := d.c.Agent.Keep(ctx, v, j); err != nil {
			return err
		}
		d.c.step("kept " + j.ID)
	}
	text, err := d.c.Node.spec(uid, e.Jobs, d.devices)
	if err != nil {
		return err
	}
	path := filepath.Join(d.c.CDI, specName(uid))
	if has, err := os.ReadFile(path); err == nil && string(has) == string(text) {
		return nil
	}
	return d.book.replace(path, text)
}

// Unprepare takes a claim's jobs back: its containers have ended. Of a claim that is not known
// there is nothing to do but what the agent may keep for it.
func (d *Driver) Unprepare(ctx context.Context, uid string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isUID(uid) {
		return fmt.Errorf("claim of uid %q: want letters, digits and dashes, 64 at most", uid)
	}
	if e, ok := d.book.entries[uid]; ok {
		return d.takeBack(ctx, uid, e)
	}
	if err := d.unspecify(uid); err != nil {
		return err
	}
	kept, err := d.c.Agent.Kept(ctx)
	if err != nil {
		return fmt.Errorf("claim %s: is not in the book, and the agent does not say what it "+
			"keeps: %w", uid, err)
	}
	for _, id := range kept {
		if strings.HasPrefix(id, uid+"/") {
			err = errors.Join(err, d.c.Agent.Release(ctx, id))
		}
	}
	return err
}

// takeBack takes back what may have been given, and strikes the claim out when nothing is left.
func (d *Driver) takeBack(ctx context.Context, uid string, e entry) error {
	if e.State == prepared {
		e.State = releasing
		if err := d.book.set(uid, e); err != nil {
			return err
		}
	}
	if err := d.unspecify(uid); err != nil {
		return err
	}
	d.c.step("unspecified")
	if err := d.release(ctx, e); err != nil {
		return err
	}
	if err := d.book.set(uid, entry{}); err != nil {
		return err
	}
	d.c.Log.Info("claim taken back", "claim", e.Claim, "uid", uid)
	return nil
}

// release has the agent keep the claim's jobs no longer.
func (d *Driver) release(ctx context.Context, e entry) error {
	for _, j := range e.Jobs {
		if j.Admin || j.CPU {
			continue
		}
		if err := d.c.Agent.Release(ctx, j.ID); err != nil {
			return err
		}
		d.c.step("released " + j.ID)
	}
	return nil
}

// unspecify removes a claim's specification, and what a kill left of it.
func (d *Driver) unspecify(uid string) error {
	path := filepath.Join(d.c.CDI, specName(uid))
	for _, p := range []string{path, path + ".new"} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *Driver) answer(uid string, jobs []Job) []Prepared {
	var all []Prepared
	for i := range jobs {
		j := &jobs[i]
		all = append(all, Prepared{j.Request, j.Pool, j.Device, j.ShareID,
			d.c.Node.ids(uid, j, d.devices[j.Device])})
	}
	return all
}

// Given is what claims have of a device, by the book: bytes and a part of its time.
func (d *Driver) Given(name string) (memory share.Bytes, compute float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.given(name)
}

func (d *Driver) given(name string) (memory share.Bytes, compute float64) {
	for _, e := range d.book.entries {
		m, c := total(e.Jobs, name)
		memory, compute = memory+m, compute+c
	}
	return memory, compute
}

// total is what jobs have of a device.
func total(jobs []Job, name string) (memory share.Bytes, compute float64) {
	for i := range jobs {
		if jobs[i].Device == name {
			memory += jobs[i].Share.Memory
			compute += jobs[i].Share.Compute
		}
	}
	return memory, compute
}

// Lacks reports whether an agent that keeps these lacks what was prepared: it is another one, which
// knows nothing of it, and [Driver.Recover] is to be called.
func (d *Driver) Lacks(kept []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.book.entries {
		for i := range e.Jobs {
			j := &e.Jobs[i]
			if e.State == prepared && !j.CPU && !j.Admin && !slices.Contains(kept, j.ID) {
				return true
			}
		}
	}
	return false
}

// Claims are the UIDs of all claims in the book, in their order.
func (d *Driver) Claims() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.book.entries))
}
