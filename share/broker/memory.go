package broker

import (
	"context"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// Reserve counts n more bytes as held by the job. It refuses with [core.ErrOverCap] what would take
// the job over its cap, by a byte or more, with [core.ErrNoMemory] what the job does not keep and
// others hold, and then counts nothing.
func (j *Job) Reserve(kind core.MemoryKind, n share.Bytes) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return j.step(core.Event{Kind: core.Reserve, Memory: kind, Bytes: n})
}

// ReserveWait counts n more bytes as held by the job, as soon as they fit under its cap, and beside
// what others hold. It refuses with [core.ErrOverCap] what can never fit, with [core.ErrWaits] to
// wait beside another reservation of the job, and with [core.ErrNoMemory] to wait within an
// iteration for what the job does not keep. When the context is done or the job ends, nothing is
// counted.
func (j *Job) ReserveWait(ctx context.Context, kind core.MemoryKind, n share.Bytes) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.b.mu.Lock()
	err := j.step(core.Event{Kind: core.Reserve, Memory: kind, Bytes: n, Wait: true})
	if s, ok := j.b.core.Job(j.id); err != nil || !ok || s.Memory.Asked == 0 {
		j.b.mu.Unlock()
		return err
	}
	room := make(chan struct{})
	j.room = room
	j.b.mu.Unlock()
	select {
	case <-room:
	case <-ctx.Done():
		return j.withdraw(room, kind, n, ctx.Err())
	}
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return j.endedError()
	}
	return nil
}

// Moved says that the memory of the job, which holds its lease, has come to the device for its
// turn, and how long that took: see [core.Moved].
func (j *Job) Moved(took time.Duration) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Moved, Used: took}) // refused only after the end
}

// withdraw ends the wait of a reservation whose context is done.
func (j *Job) withdraw(room chan struct{}, kind core.MemoryKind, n share.Bytes, err error) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.room != room {
		// It was counted, or the job ended, at the same moment; another may wait since.
		if !j.ended {
			_ = j.step(core.Event{Kind: core.Unreserve, Memory: kind, Bytes: n}) // it is held
		}
		return err
	}
	j.room = nil
	_ = j.step(core.Event{Kind: core.Withdraw})
	return err
}

// admitRoom wakes the goroutine whose reservation waits, if there is one.
func (j *Job) admitRoom() {
	if j.room != nil {
		close(j.room)
		j.room = nil
	}
}

// Free counts n bytes as given back. More than is reserved is an error, [core.ErrNotReserved], and
// changes nothing. After the job's end, which frees everything, Free does nothing.
func (j *Job) Free(kind core.MemoryKind, n share.Bytes) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return nil
	}
	return j.step(core.Event{Kind: core.Unreserve, Memory: kind, Bytes: n})
}

// OnEvicted has give called, on a goroutine of its own, whenever the job is told to hold less
// memory: see [Job.Told]. An elastic job that gives nothing back keeps others waiting.
func (j *Job) OnEvicted(give func()) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	j.give = give
}

// Told returns the most that the job is to hold, if that is less than it does. What was asked back
// before a later reservation of the job is not asked any more.
func (j *Job) Told() (most share.Bytes, ok bool) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return 0, false
	}
	return j.b.core.Told(j.id)
}

// Stay says that the job has given back all that it can, until its next iteration.
func (j *Job) Stay() { j.tell(core.Stay) }

// Shelve says whether the job is kept in case it is wanted again: while it is, what is lent to it
// is asked back before that of all others. Its next request or iteration ends that.
func (j *Job) Shelve(on bool) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Shelve, Wait: on}) // refused only after the end
}

// Split has n bytes of what the job holds of persistent memory, and spec.Memory of its cap and of
// what it needs, be those of a job of their own, which needs [Job.End] and is elastic. What the job
// has beside is set apart for it from here on. It refuses what the job does not hold, and within an
// iteration or a wait for memory; what Admit refuses it refuses too. See [core.Split].
func (j *Job) Split(spec share.Job, n share.Bytes) (*Job, error) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return nil, j.endedError()
	}
	return j.b.let(&spec, core.Event{Kind: core.Split, Job: j.id, Bytes: n})
}
