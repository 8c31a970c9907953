package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
)

// TestInspectPrecision holds that the explanation names every product, every cast and why what
// stays float32 does.
func TestInspectPrecision(t *testing.T) {
	f := kernels.Target(device.Info{}).Features()
	if !f.BF16 || f.Costs.BF16Rate.Times() < 1.2 {
		t.Skip("this processor does not multiply bfloat16, or hardly faster")
	}
	model := filepath.Join(t.TempDir(), "mobilenetv2.onnx")
	done(t, "model", "new", "mobilenetv2", model)
	c := done(t, "inspect", model, "--precision", "auto")
	for _, want := range []string{
		`(?m)^precision auto: \d+ of 53 products multiply in bf16$`,
		`(?m)^casts: \d+ inserted; \d+ folded into constants, \d+ fused into kernels, \d+ eliminated, 0 left$`,
		`(?m)^values used in bf16 only: \d+, of [\d.]+ [KM]iB in fp32$`,
		`(?m)^bf16  allow  weir:(Conv ".+": [\d.]+ times the rate saves|NhwcConv ".+": a product of pixels).+; casts fused, folded, eliminated$`,
		`(?m)^(fp32|same)  allow  .*Conv ".+": a depthwise convolution`,
		`(?m)^fp32  allow  Gemm ".+": the last product before an output`,
		`(?m)^fp32  deny   1 x (weir:Nhwc)?GlobalAveragePool: (adds up many elements|its operands are bfloat16)$`,
		`(?m)^fp32  infer  1 x Flatten: stays float32 with what is before it$`,
	} {
		if !regexp.MustCompile(want).MatchString(c.out) {
			t.Errorf("no line %s in\n%s", want, c.out)
		}
	}
	amp := done(t, "inspect", model, "--precision", "bf16", "--json").
		object(t)["amp"].(map[string]any)
	casts, nodes := amp["casts"].(map[string]any), amp["nodes"].([]any)
	chosen := 0.0
	for _, n := range nodes {
		if n := n.(map[string]any); n["bf16"] == true {
			chosen++
		} else if n["why"] == "" {
			t.Errorf("no reason for %v", n)
		}
	}
	if chosen == 0 || casts["inserted"] != 3*chosen || casts["eliminated"].(float64) < chosen {
		t.Errorf("%g products in bfloat16 with casts %v", chosen, casts)
	}
	if c := done(t, "inspect", model); strings.Contains(c.out, "casts:") {
		t.Errorf("fp32 is explained, too: %s", c.out)
	}
}
