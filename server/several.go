package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// This file is models that answer one request by several answers (Triton,
// docs/user_guide/decoupled_models.md). A graph has computed all of its outputs when it ends: so
// what such a model returns as rows of its outputs, along their first dimension, are the answers.

// propertyDecoupled is the property of a model whose rows are answers of their own: "true".
const propertyDecoupled = "decoupled"

// mostAnswers is how many answers a request may have.
const mostAnswers = 4096

// decoupledOf reads the property.
func decoupledOf(properties map[string]string) (bool, error) {
	switch value := properties[propertyDecoupled]; value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%w: property %s is %.40q: give true or false", weir.ErrModel,
			propertyDecoupled, value)
	}
}

// InferAll is [Server.Infer] for who takes several answers to a request: [Answer.Each] has them.
func (s *Server) InferAll(ctx context.Context, name, number string, r *oip.Request) (*Answer,
	error) {
	return s.inferred(ctx, name, number, r, true)
}

// one is the error where a model has several answers and its client takes one.
func (v *version) one() error {
	return oip.Faultf(oip.Unsupported, "model %s is decoupled, and answers a request several "+
		"times: ask by ModelStreamInfer or generate_stream", v.name)
}

// rowsOfAll is how many answers there are to a request.
func (a *Answer) rowsOfAll() (int, error) {
	rows := -1
	for _, o := range a.Outputs {
		switch {
		case o.Region != nil:
			return 0, oip.Faultf(oip.Unsupported, "output %.200q is wanted in shared memory, and "+
				"the model answers several times", o.Name)
		case len(o.Tensor.Shape) == 0 || rows >= 0 && o.Tensor.Shape[0] != rows:
			return 0, fmt.Errorf("output %s is %v: a decoupled model returns rows, as many of each",
				o.Name, o.Tensor.Shape)
		}
		rows = o.Tensor.Shape[0]
	}
	if rows > mostAnswers {
		return 0, oip.Faultf(oip.Invalid, "%d answers to one request, and there may be %d", rows,
			mostAnswers)
	}
	return rows, nil
}

// Each calls yield for the answers to the request in their order, until it returns an error: for
// the one that there is, or each row of a model with several. The last has the parameter
// triton_final_response; with the request's triton_enable_empty_final_response that is one without
// outputs behind those of a model with several.
func (a *Answer) Each(yield func(r *oip.Response) error) error {
	last := oip.Parameters{"triton_final_response": true}
	if a.several == 0 && !a.decoupled {
		a.Parameters = last
		return yield(&a.Response)
	}
	for i := range a.several {
		r := oip.Response{Model: a.Model, Version: a.Version, ID: a.ID,
			Parameters: oip.Parameters{"triton_final_response": i == a.several-1 && !a.empty}}
		for _, o := range a.Outputs {
			o.Tensor = part(o.Tensor, i, 1)
			r.Outputs = append(r.Outputs, o)
		}
		if err := yield(&r); err != nil {
			return err
		}
	}
	if a.several > 0 && !a.empty {
		return nil
	}
	return yield(&oip.Response{Model: a.Model, Version: a.Version, ID: a.ID, Parameters: last})
}

// generate answers a request whose body is inputs by name, of which q is told: with one answer, or
// as server-sent events with all of them.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, q *telemetry.Request) error {
	v, err := s.look(r.PathValue("model"), r.PathValue("version"))
	if err != nil {
		return err
	}
	q.For(v.counts, auth.From(r.Context()).Name)
	body := body{of: s, to: http.NewResponseController(w), began: time.Now()}
	defer body.release()
	all, err := body.read(w, r)
	q.Bytes(body.n, 0)
	if err != nil {
		w.Header().Set("Connection", "close")
		return err
	}
	request, err := oip.DecodeGenerate(all, v.shown().Inputs, &body)
	if err != nil {
		return err
	}
	ask, events := s.Infer, strings.HasSuffix(r.URL.Path, "_stream")
	if events {
		ask = s.InferAll
	}
	a, err := ask(telemetry.With(r.Context(), q), v.name, r.PathValue("version"), request)
	if err != nil {
		return err
	}
	defer a.Close()
	out, err := a.generated(events)
	a.free()
	if err != nil {
		return err
	}
	q.Mark(telemetry.Encoded)
	body.exchange(int64(cap(out)))
	w.Header().Set("Content-Type", "application/json")
	if events {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
	}
	q.Bytes(body.n, send(w, r, out))
	return nil
}

// generated is the answer's body: JSON, or an event for each answer that has outputs.
func (a *Answer) generated(events bool) (out []byte, err error) {
	if !events {
		return a.AppendGenerated(nil)
	}
	err = a.Each(func(r *oip.Response) error {
		if len(r.Outputs) == 0 {
			return nil
		}
		out, err = r.AppendGenerated(append(out, "data: "...))
		out = append(out, "\n\n"...)
		return err
	})
	return out, err
}
