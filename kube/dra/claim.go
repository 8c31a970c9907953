package dra

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/share"
)

// Claim is a ResourceClaim of Kubernetes (resource.k8s.io/v1) as far as the driver goes by it.
type Claim struct {
	UID, Namespace, Name string
	// Pods are the names of those for which it is reserved, for the name of its jobs.
	Pods []string
	// Results are what the scheduler gave of this driver's devices.
	Results []Result
}

// Result is one device, or a part of one, that a claim was given.
type Result struct {
	Request      string // "name", or "name/alternative" of a prioritized list
	Pool, Device string
	ShareID      string // of this part among all of the device; empty for a whole device
	Memory       share.Bytes
	Compute      int // thousandths
	// Admin: access for somebody who watches, which takes nothing of the device.
	Admin bool
	// Parameters are the opaque ones for this driver, in the order in which they hold.
	Parameters [][]byte
}

// String names the claim to people.
func (c *Claim) String() string { return "claim " + c.Namespace + "/" + c.Name }

// jobName is what weir top calls the jobs of the claim: their pod, if it has one alone.
func (c *Claim) jobName() string {
	if len(c.Pods) == 1 {
		return c.Pods[0]
	}
	return c.Name
}

// Job is what the agent keeps for one result.
type Job struct {
	// ID is the claim's name to the agent.
	ID      string `json:"id"`
	Name    string `json:"name"`
	Request string `json:"request"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	ShareID string `json:"share_id,omitempty"`
	Admin   bool   `json:"admin,omitempty"`
	CPU     bool   `json:"cpu,omitempty"`
	// Token lets programs join.
	Token string      `json:"token"`
	Share share.Share `json:"share"`
}

// same reports whether two are the same part of the same device on the same terms, whoever joins.
func (j Job) same(k Job) bool {
	j.Token, j.Name = k.Token, k.Name
	return j == k
}

// jobs reads a claim: one job a result.
func (c *Claim) jobs(devices map[string]Device) ([]Job, error) {
	if !isUID(c.UID) {
		return nil, fmt.Errorf("%v: uid %q: want letters, digits and dashes, 64 at most", c, c.UID)
	}
	if len(c.Results) == 0 {
		return nil, fmt.Errorf("%v: was given no device of %s", c, DriverName)
	}
	seen := map[string]bool{}
	var jobs []Job
	for i := range c.Results {
		r := &c.Results[i]
		if seen[r.Request] {
			return nil, fmt.Errorf("%v: request %s: was given several devices, and a program has "+
				"a share of one: write one request a device, and one container a request", c,
				r.Request)
		}
		seen[r.Request] = true
		j, err := c.job(r, devices)
		if err != nil {
			return nil, fmt.Errorf("%v: request %s: %w", c, r.Request, err)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (c *Claim) job(r *Result, devices map[string]Device) (Job, error) {
	j := Job{ID: c.UID + "/" + r.Request, Name: c.jobName(), Request: r.Request, Pool: r.Pool,
		Device: r.Device, ShareID: r.ShareID, Admin: r.Admin}
	d, ok := devices[r.Device]
	if !ok {
		return j, fmt.Errorf("device %s: the node has none of this name: it may have gone; "+
			"delete the pod to have it placed anew", r.Device)
	}
	if j.CPU = d.CPU; r.Admin {
		return j, nil
	}
	var p Parameters
	for _, text := range r.Parameters {
		var err error
		if p, err = ParseParameters(p, text); err != nil {
			return j, err
		}
	}
	var err error
	if j.Share, err = p.shareOf(r.Memory, r.Compute); err != nil {
		return j, err
	}
	if d.CPU && j.Share.Limit == 0 {
		j.Share.Limit = max(j.Share.Compute, milli(1))
	}
	if r.Memory > d.Memory {
		return j, fmt.Errorf("wants %v of %s, which has %v", r.Memory, r.Device, d.Memory)
	}
	return j, nil
}

// isUID reports whether a text is safe as a part of file names and of CDI names, as all UIDs of
// Kubernetes are.
func isUID(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && strings.Trim(s,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}
