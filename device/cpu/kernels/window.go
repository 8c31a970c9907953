package kernels

import (
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
)

// convWindow is the window of a convolution by weights of those spatial axes over an image, and the
// number of its groups; false for what the reference refuses.
func convWindow(call *op.Call, image, kernel []int) (w conv.Window, group int, ok bool) {
	read, err := call.Window(kernel)
	if err != nil {
		return w, 0, false
	}
	if group, err = call.Group(); err != nil {
		return w, 0, false
	}
	w, ok = windowOver(call, read, image)
	return w, group, ok
}

// poolWindow is the window of a pooling over an image of those spatial axes; false for what the
// reference refuses.
func poolWindow(call *op.Call, image []int) (conv.Window, bool) {
	read, err := call.PoolWindow(len(image))
	if err != nil {
		return conv.Window{}, false
	}
	return windowOver(call, read, image)
}

// windowOver is the window over an image of those spatial axes; false where it does not fit.
func windowOver(call *op.Call, w op.Window, image []int) (conv.Window, bool) {
	_, err := w.Place(call, image)
	return threeAxes(&w, image), err == nil
}

// threeAxes is a window whose padding is known as package conv has windows: over three axes, of
// which those that the image lacks come first and have one element.
func threeAxes(w *op.Window, image []int) conv.Window {
	one := [3]int{1, 1, 1}
	v := conv.Window{In: one, Kernel: one, Stride: one, Dilate: one}
	lead := 3 - len(image)
	copy(v.In[lead:], image)
	copy(v.Kernel[lead:], w.Kernel)
	copy(v.Stride[lead:], w.Stride)
	copy(v.Dilate[lead:], w.Dilation)
	copy(v.PadLo[lead:], w.Begin)
	copy(v.PadHi[lead:], w.End)
	return v
}
