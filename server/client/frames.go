package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"

	"github.com/weirgpu/weir/server/oip"
)

// read reads what the server sends, until the connection ends.
func (c *Calls) read() {
	var came int64 // since the server was told that it may send more
	for {
		f, err := c.framer.ReadFrame()
		var of http2.StreamError
		if errors.As(err, &of) {
			c.end(of.StreamID, fmt.Errorf("%w: %w", oip.ErrAnswer, err))
			continue
		}
		if err == nil {
			err = c.frameOf(f, &came)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// frameOf acts upon a frame.
func (c *Calls) frameOf(f http2.Frame, came *int64) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			c.end(f.StreamID, statusOf(f))
		}
	case *http2.DataFrame:
		if *came += int64(f.Length); *came > window/2 {
			n := uint32(*came)
			*came = 0
			c.owe(func() error { return c.framer.WriteWindowUpdate(0, n) })
		}
		c.data(f.StreamID, f.Data())
		if f.StreamEnded() {
			c.end(f.StreamID, fmt.Errorf("%w: it has no status", oip.ErrAnswer))
		}
	case *http2.RSTStreamFrame:
		c.reset(f.StreamID, f.ErrCode)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.settings(f)
			table, given := f.Value(http2.SettingHeaderTableSize)
			c.owe(func() error {
				if given {
					c.headers.SetMaxDynamicTableSizeLimit(table)
				}
				return c.framer.WriteSettingsAck()
			})
		}
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			c.owe(func() error { return c.framer.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		c.grow(f.StreamID, int64(f.Increment))
	case *http2.GoAwayFrame:
		c.mu.Lock()
		c.leaving = &CallError{codes.Unavailable, "the server ends the connection: " +
			f.ErrCode.String()}
		c.leave() // calls under way may be answered yet
		c.mu.Unlock()
	}
	return nil
}

// owe has a frame written later.
func (c *Calls) owe(f func() error) {
	select {
	case c.replies <- f:
	case <-c.ended:
	}
}

// end ends a call by what the server said.
func (c *Calls) end(stream uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[stream]; k != nil {
		c.finish(k, err)
	}
}

// reset ends a call that the server has ended without a status. Servers do that to one whose
// deadline is over, and may be first to see that it is.
func (c *Calls) reset(stream uint32, code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[stream]
	switch {
	case k == nil:
	case code == http2.ErrCodeCancel && !k.due.IsZero() && !time.Now().Before(k.due):
		c.finish(k, context.DeadlineExceeded)
	default:
		c.finish(k, &CallError{codes.Unavailable, "the call was ended: " + code.String()})
	}
}

// data takes a part of an answer.
func (c *Calls) data(stream uint32, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[stream]
	if k == nil {
		return
	}
	if k.read += int64(len(b)); k.read > MostAnswer {
		c.finish(k, fmt.Errorf("%w: it has more than %d bytes", oip.ErrAnswer, MostAnswer))
		return
	}
	if k.keep {
		k.answer = append(k.answer, b...)
	}
}

// settings takes how the server wants to be sent to.
func (c *Calls) settings(f *http2.SettingsFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, k := range c.calls {
			k.window += int64(v) - c.initial
		}
		c.initial = int64(v)
		c.wake()
	}
	if v, ok := f.Value(http2.SettingMaxFrameSize); ok {
		c.frame = int(v)
	}
}

// grow has the server take n bytes more, of a call or, with stream 0, in all.
func (c *Calls) grow(stream uint32, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream == 0 {
		c.window += n
	} else if k := c.calls[stream]; k != nil {
		k.window += n
	}
	c.wake()
}

// wake has senders look again; c.mu is held.
func (c *Calls) wake() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// statusOf is what the trailers of a call say.
func statusOf(f *http2.MetaHeadersFrame) error {
	said := &CallError{Code: codes.Unknown, Text: "the answer has no status"}
	for _, h := range f.Fields {
		switch h.Name {
		case "grpc-status":
			n, err := strconv.ParseUint(h.Value, 10, 32)
			if err != nil {
				return fmt.Errorf("%w: its status is %.40q", oip.ErrAnswer, h.Value)
			}
			said.Code = codes.Code(n)
		case "grpc-message":
			text, err := url.PathUnescape(h.Value)
			if err != nil {
				text = h.Value
			}
			said.Text = text
		}
	}
	if said.Code == codes.OK {
		return nil
	}
	return said
}
