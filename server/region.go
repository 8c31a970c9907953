package server

import "github.com/weirgpu/weir/server/oip"

// here holds that all that a request names goes with it and its answer.
func here(r *oip.Request) error {
	const text = "%s %.200q is in shared memory, which this server does not use"
	for _, v := range r.Inputs {
		if v.Region != nil {
			return oip.Faultf(oip.Unsupported, text, "input", v.Name)
		}
	}
	for _, o := range r.Outputs {
		if o.Region != nil {
			return oip.Faultf(oip.Unsupported, text, "output", o.Name)
		}
	}
	return nil
}
