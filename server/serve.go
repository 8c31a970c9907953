package server

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirgpu/weir/server/auth"
)

// HTTP returns a server of HTTP that begins nothing for clients that do not get on: 5 seconds for a
// head, a minute for a request, and two between requests. It speaks HTTP/1.1.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, Protocols: new(http.Protocols),
		ConnContext: auth.Connected,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	s.Protocols.SetHTTP1(true)
	return s
}

// Serve has h, whose handler is s, answer what comes to on, small requests in front of it. It
// returns as http.Server.Serve does.
func (s *Server) Serve(on net.Listener, h *http.Server) error { return h.Serve(s.Front(on, h)) }
