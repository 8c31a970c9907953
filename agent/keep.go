package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// A claim keeps its job for somebody who may end and come back while the job's programs start, run
// and end: a driver of devices for containers. The job is there from the claim's first Create to
// its Release, whoever lives, and an agent that is started has it again before it hears anybody, so
// that nothing of it can be promised to others.

// maxClaim bounds a claim's name, in bytes.
const maxClaim = 200

// isClaim reports whether a text can name a claim.
func isClaim(s string) bool {
	return s != "" && len(s) <= maxClaim && strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsPrint(r)
	}) < 0
}

// checkClaim refuses what an agent would not keep.
func checkClaim(r *JobRequest) error {
	switch {
	case !isClaim(r.Claim):
		return fmt.Errorf("claim %q: %w: want a name of 1 to %d printable ASCII bytes", r.Claim,
			share.ErrInvalid, maxClaim)
	case r.Gang != "" || r.Again != nil:
		return fmt.Errorf("claim %s: %w: its job cannot be a rank of a gang, nor another's again",
			r.Claim, share.ErrInvalid)
	case r.Memory <= 0:
		return fmt.Errorf("claim %s: %w: want a cap on memory", r.Claim, share.ErrInvalid)
	}
	return nil
}

// parseClaim reads the text of a Create that is to be kept: the job's name and the claim's.
func parseClaim(m wire.Create, text string) (name, kept string, err error) {
	name, kept, _ = strings.Cut(text, "\x00")
	if !isClaim(kept) || m.Gangs() || m.Rejoins() || m.Memory == 0 {
		return "", "", refusal(wire.RefusedProtocol, "claim %q: want a name of 1 to %d printable "+
			"bytes, a cap on memory, and neither a gang nor a job of before", kept, maxClaim)
	}
	return name, kept, nil
}

// keeps returns the job of a claim; nil for none. The agent's lock is held.
func (a *Agent) keeps(claim string) *job {
	if claim == "" {
		return nil
	}
	for _, j := range a.jobs {
		if j.claim == claim {
			return j
		}
	}
	return nil
}

// keep gives a claim the job that it has, or else a new one, with the token that it names. A job
// whose claim was released and whose programs still run is the claim's again if it names the token.
func (a *Agent) keep(want claim, c *conn) (*job, error) {
	a.mu.Lock()
	j, again := a.keeps(want.kept), a.jobs[want.terms.Token]
	if j == nil && again != nil && again.claim == "" {
		j = again
	}
	if j != nil {
		defer a.mu.Unlock()
		return j, j.keepFor(want, c)
	}
	a.mu.Unlock()
	if again != nil {
		return nil, refusal(wire.RefusedAdmission, "claim %s: names the token of claim %s",
			want.kept, again.claim)
	}
	if want.terms.Token == (wire.Token{}) {
		if _, err := rand.Read(want.terms.Token[:]); err != nil {
			return nil, refusal(wire.RefusedBusy, "no random numbers: %w", err)
		}
	}
	return a.admitNew(want, c)
}

// keepFor makes a job a claim's once more. The agent's lock is held.
func (j *job) keepFor(want claim, c *conn) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.ended:
		return refusal(wire.RefusedBusy, "claim %s: its job is ending: try again", want.kept)
	case j.terms.Device != want.terms.Device || j.dev.Fake != want.fake:
		return refusal(wire.RefusedAdmission, "claim %s: has its job on %s: release it first",
			want.kept, j.dev.ID())
	}
	j.users.Add(1) // until its controller is gone
	if j.claim != want.kept {
		j.claim = want.kept
		j.keepRecord()
	}
	return nil
}

// serveRelease ends what keeps a claim's job.
func (c *conn) serveRelease(m wire.Release, claim string) error {
	if m.Version != wire.Version {
		return otherVersion(m.Version)
	}
	if !isClaim(claim) {
		return refusal(wire.RefusedProtocol, "claim %q: is no name of a claim", claim)
	}
	c.a.mu.Lock()
	j := c.a.keeps(claim)
	if j != nil {
		j.mu.Lock()
		j.claim = ""
		if !j.ended {
			j.keepRecord()
		}
		j.mu.Unlock()
	}
	c.a.mu.Unlock()
	if j != nil {
		c.a.log.Info("claim released", "claim", claim, "job", j)
		j.endIfAlone()
	}
	return c.write(wire.NewDone(wire.Done{TextLen: uint32(len(claim))}), claim, nil)
}

// Release ends what keeps the job of a claim: it ends as soon as no process is attached to it. Of a
// claim that the agent does not know there is nothing to do, and no error. An error is [ErrRefused]
// with the agent's text, or one of the connection, which is of no further use.
func (c *Client) Release(claim string) error {
	if !isClaim(claim) {
		return fmt.Errorf("claim %q: %w: is no name of a claim", claim, share.ErrInvalid)
	}
	_, err := c.ask(wire.NewRelease(wire.Release{Version: wire.Version,
		TextLen: uint32(len(claim))}), claim)
	return err
}

// restoreClaims lets in again what an agent before kept for claims. Nobody is heard yet.
func (a *Agent) restoreClaims() {
	entries, err := os.ReadDir(a.cfg.Dir)
	if err != nil {
		a.log.Warn("claims of the agent before not found", "error", err)
		return
	}
	for _, e := range entries {
		text, is := strings.CutSuffix(e.Name(), recordSuffix)
		token, err := wire.ParseToken(text)
		if !is || err != nil {
			continue
		}
		had, ok := a.recall(token)
		if !ok || had.kept == "" {
			continue
		}
		a.mu.Lock()
		_, err = a.admitJob(had, nil, nil)
		a.mu.Unlock()
		if err != nil {
			a.log.Warn("claim of the agent before not kept", "claim", had.kept, "error", err)
		}
	}
}

// refound returns the job that a process joins. The first that comes back to a claim's job of an
// agent before brings the page that all its processes have, which becomes the job's again. If one
// that is new has come before, those that come back move to the page that this one has. The agent's
// lock is held.
func (a *Agent) refound(j *job, m wire.Hello, file *os.File) (*job, error) {
	j.mu.Lock()
	had := claim{page: j.former}
	if !m.Rejoins() || file == nil {
		had.page = pageID{}
	}
	if j.former != (pageID{}) && had.page == (pageID{}) {
		j.former = pageID{}
		j.keepRecord()
	}
	j.mu.Unlock()
	if had.page == (pageID{}) {
		return j, nil
	}
	had, ok := a.recall(m.Token)
	if !ok {
		return j, nil // as if it were new
	}
	page, err := mapBrought(file, had)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.endLocked()
	j.mu.Unlock()
	j.drop()
	back, err := a.admitJob(had, nil, page)
	if err != nil {
		return nil, errors.Join(err, a.readmit(had))
	}
	return back, nil
}

// readmit keeps a claim whose page could not be taken up.
func (a *Agent) readmit(had claim) error {
	_, err := a.admitJob(had, nil, nil)
	return err
}
