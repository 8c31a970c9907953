package main

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// handed are the sockets that a service manager listens on for the server (sd_listen_fds(3)), by
// the flag whose address they have.
type handed map[string]*net.TCPListener

// handedNames are what FileDescriptorName= may be in a unit of sockets.
var handedNames = []string{"http", "grpc", "metrics"}

// takeHanded takes the sockets over, if there are some. One alone answers HTTP, however it is
// called.
func takeHanded() (handed, error) {
	named, err := activation.ListenersWithNames()
	if err != nil {
		return nil, failed(fmt.Errorf("sockets of the service manager: %w", err))
	}
	h, all := handed{}, 0
	for name, list := range named {
		all += len(list)
		for _, l := range list {
			tcp, ok := l.(*net.TCPListener)
			flag := name
			if len(named) == 1 && !slices.Contains(handedNames, name) {
				flag = "http"
			}
			switch {
			case !ok:
				return nil, fmt.Errorf("socket %s of the service manager is no TCP socket that "+
					"listens", name)
			case !slices.Contains(handedNames, flag) || h[flag] != nil:
				return nil, fmt.Errorf("socket %s of the service manager: have one each with "+
					"FileDescriptorName= %s", name, strings.Join(handedNames, ", "))
			}
			h[flag] = tcp
		}
	}
	return h, nil
}

// tellManager tells the service manager how the server is (sd_notify(3)); without one it does
// nothing.
func tellManager(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// tellReload has the service manager wait until reload returns (Type=notify-reload).
func tellReload(log *slog.Logger, reload func()) {
	tellManager(log, daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec())
	reload()
	tellManager(log, daemon.SdNotifyReady)
}
