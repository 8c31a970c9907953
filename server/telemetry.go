package server

import (
	"errors"
	"net/http"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// Recorder counts what the server is asked. Protocols begin a request with it, and hand it on to
// [Server.Infer] in the context.
func (s *Server) Recorder() *telemetry.Recorder { return s.rec }

// Status is the state of the device and of the models' jobs.
func (s *Server) Status() weir.HostStatus { return s.host.Status() }

// Statistics returns what versions of models came to, by name: of all, of all that a model has
// where no version is named, or of one. The error is an *oip.Fault.
func (s *Server) Statistics(name, version string) ([]oip.Statistics, error) {
	list := []oip.Statistics{}
	if name != "" {
		if _, err := s.look(name, version); err != nil {
			return nil, err
		}
	}
	for _, e := range s.Index(true) {
		if name != "" && name != e.Name || version != "" && version != e.Version {
			continue
		}
		if v, err := s.look(e.Name, e.Version); err == nil {
			list = append(list, v.counts.Statistics())
		}
	}
	return list, nil
}

func (s *Server) statistics(w http.ResponseWriter, r *http.Request) error {
	list, err := s.Statistics(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	write(w, http.StatusOK, oip.StatisticsList{Models: list})
	return nil
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", telemetry.ContentType)
	send(w, r, s.rec.AppendText(nil, s))
	return nil
}

// errPanic is what a request ended by whose handler did not return.
var errPanic = errors.New("panic while answering")

// counted is an error with the kind that it counts under.
func counted(err error) error {
	if err == nil {
		return nil
	}
	var h *httpError
	if errors.As(err, &h) && h.status < http.StatusInternalServerError {
		return oip.Faultf(oip.Invalid, "%s", h.text)
	}
	return fault(err)
}
