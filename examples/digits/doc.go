// Package digits carries a small classifier of handwritten digits and the images that it was
// trained and checked on, embedded in the program.
//
// [Model] is the ONNX file. [Images], [Labels] and [HeldOut] are the UCI optical handwritten digits
// (Alpaydin and Kaynak 1998, CC BY 4.0) and the rows that training did not see; [Input] turns
// images into what the model takes. README.md tells how they were made.
//
// The functions decode the embedded files afresh at each call and share nothing, so they may be
// called from several goroutines. Their .npy reader takes only what these files need: version 1.0,
// little-endian, C order.
package digits
