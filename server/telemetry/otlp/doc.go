// Package otlp sends spans to a collector of OpenTelemetry, over HTTP as protobuf (OTLP 1.11), and
// reads and writes W3C's traceparent. It is small in place of OpenTelemetry's own packages, which
// add more to a program than a server of HTTP takes.
//
// Meet first: [New] gives an [Exporter], and [Exporter.Export] takes a [Span].
//
// Concurrency: every method may be called by any number of goroutines. Export waits for nothing.
//
// What it refuses: more spans than may wait, which are dropped and counted ([Exporter.Dropped]); so
// are those that the collector does not take, after tries for half a minute.
package otlp
