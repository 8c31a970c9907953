package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirgpu/weir/server/auth"
)

// healthWatch tells whether the server is ready, at once and when that changes, until the client
// has enough or the server ends.
func healthWatch(s *Server, ctx context.Context, stream grpc.ServerStream, k *call) error {
	r, err := receive(stream, k)
	if err != nil {
		return err
	}
	var m healthpb.HealthCheckRequest
	err = r.into(&m)
	r.free()
	if err != nil {
		return err
	}
	if _, _, err := s.allow(ctx, k, auth.Call{Stream: true}); err != nil {
		return err
	}
	known := m.Service == "" || m.Service == service
	ask := time.NewTicker(interval)
	defer ask.Stop()
	for told := healthpb.HealthCheckResponse_UNKNOWN; ; {
		now := s.health()
		if !known { // it may come, says the protocol of health checks
			now.Status = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if now.Status != told {
			if err := stream.SendMsg(now); err != nil {
				return err
			}
			told = now.Status
		}
		select {
		case <-ask.C:
		case <-s.ending:
			return errEnding
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
