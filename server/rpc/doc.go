// Package rpc answers the calls of the Open Inference Protocol, version 2, over gRPC, with those of
// NVIDIA's Triton Inference Server, for a server of package server.
//
// Meet first: [New], and [Server.Serve]; [Split] lets one port answer HTTP and gRPC.
//
// gRPC is google.golang.org/grpc with its own transport. What it leaves open is held by a reader of
// frames between the connection and it: how many bytes of messages have come and wait, and whether
// a message comes on. Requests for inferences are read in place, in the memory that the transport
// received them in.
//
// Concurrency: every method may be called by any number of goroutines. A connection has one
// goroutine that reads it, one that writes it, and one for each call.
//
// What it refuses: messages that are larger than a body may be, before their memory is there
// (RESOURCE_EXHAUSTED); more bytes than the server has for bodies (UNAVAILABLE); clients that send
// or take too slowly (DEADLINE_EXCEEDED, or the end of the connection); more than [MaxCalls] calls
// at once on a connection, and [MaxConnections] connections; and all calls once [Server.Drain] was
// called (UNAVAILABLE).
package rpc
