package weir

import (
	"fmt"
	"log/slog"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan/cache"
)

// Option configures [Open] and [Load], which fail with an error of kind [ErrOption] when it is nil
// or has a value that it does not take.
type Option func(*config)

type config struct {
	threads  int
	runs     int
	variants int
	copied   bool
	passes   pass.Options
	cache    *cache.Cache
	err      error // what an option refuses

	operators []*op.Op
	kernels   map[*op.Op]prepare // of some of operators
}

// reading says how a model is read.
func (c *config) reading() onnx.Options {
	return onnx.Options{Copy: c.copied, Operators: c.operators}
}

// configure applies options in their order.
func configure(opts []Option) (config, error) {
	c := config{}
	for i, o := range opts {
		if o == nil {
			return c, fmt.Errorf("%w: option %d of %d is nil", ErrOption, i+1, len(opts))
		}
		o(&c)
	}
	return c, c.err
}

// count sets a number that an option gives, which is not negative.
func (c *config) count(to *int, option string, n int) {
	if n < 0 && c.err == nil {
		c.err = fmt.Errorf("%w: %s(%d): give a positive number, or 0 for the default", ErrOption,
			option, n)
	}
	*to = n
}

// Precision names the arithmetic of matrix products and convolutions, here and for the jobs of
// package scenario. The empty name stands for [FP32]. Validate, and UnmarshalText, which reads one
// from flags and files of settings, fail where a name is none of the constants.
type Precision = pass.Precision

// The precisions of WithPrecision.
const (
	FP32 = pass.FP32 // single precision; the default
	// BF16 rounds the operands of products to bfloat16 where that makes them faster; sums stay in
	// single precision. On processors with tiles images between convolutions, and those that a
	// convolution computes for an output, are rounded too. Results agree with those of FP32 to two
	// or three digits.
	BF16 = pass.BF16
	// Auto is BF16 without the last products before an output.
	Auto = pass.Auto
)

// WithPrecision sets the arithmetic of products. On a processor that does not multiply bfloat16 in
// hardware it is FP32. p is empty or one of the constants.
func WithPrecision(p Precision) Option {
	return func(c *config) {
		if err := p.Validate(); err != nil {
			c.err = fmt.Errorf("%w: %w", ErrOption, err)
			return
		}
		c.passes.Precision = p
	}
}

// WithThreads sets how many cores a Run may use at a time, at most [MaxThreads]. The default, for
// which 0 stands, is every core that this process may use, shared by all models that are opened
// with the default.
func WithThreads(n int) Option {
	return func(c *config) {
		c.count(&c.threads, "WithThreads", n)
		if n > MaxThreads && c.err == nil {
			c.err = fmt.Errorf("%w: WithThreads(%d): give at most %d", ErrOption, n, MaxThreads)
		}
	}
}

// MaxThreads is the largest number that [WithThreads] takes.
const MaxThreads = cpu.MaxThreads

// WithMaxConcurrency sets how many Runs of the model compute at a time; each takes memory of its
// own. Others wait in the order in which they came, each until its context is done at most. Open
// results do not count. The default, for which 0 stands, is the number of cores that this process
// may use, and 2 on one core: more finish no sooner.
func WithMaxConcurrency(n int) Option {
	return func(c *config) { c.count(&c.runs, "WithMaxConcurrency", n) }
}

// WithMaxShapes sets how many compiled plans are kept, one for each set of input shapes. When
// another set of shapes would exceed that number, the plan that has been unused for longest is
// dropped. The default, for which 0 stands, is 8.
func WithMaxShapes(n int) Option {
	return func(c *config) { c.count(&c.variants, "WithMaxShapes", n) }
}

// WithCopy makes [Open] read the model's files into memory of this process, in place of mapping
// them, so that nothing which happens to them afterwards matters. It takes the time of reading all
// of them, and as much memory, which other processes with the same model do not share. [Load] does
// not take it: the bytes that it is given are in memory.
func WithCopy() Option { return func(c *config) { c.copied = true } }

// WithCache keeps in the folder dir the compiled plan of a model that [Open] reads; "" stands for
// weir/plans in the user's cache folder. If the first input shapes of the next start are the same,
// that start does not read, optimise or pack the model again. Package plan/cache says when a plan
// is found again and how the size of the folder is bounded. Only the plan for the first input
// shapes is written. Writing begins once the first Run has its result, goes on beside other Runs,
// and takes about as long as reading and writing the model's bytes; Close waits for it. Plans for
// further shapes are looked for in the cache but not written to it, and they do not share packed
// weights with a plan that was found. A folder that cannot be used is no error: the model runs as
// it does without a cache. The same holds, with a warning to slog.Default, when another user could
// have written the folder or a file in it, and when a file is damaged.
//
// A plan holds the model's weights in plain form, readable by the user who runs the program. Of a
// model from [Load] none is kept, whatever the folder: open a model that is stored encrypted so,
// from the bytes that you decrypted. docs/disk.md lists all that weir writes.
func WithCache(dir string) Option {
	return func(c *config) { c.cache, _ = cache.Open(cache.Options{Dir: dir, Log: slog.Default()}) }
}
