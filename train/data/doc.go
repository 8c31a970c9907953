// Package data reads data sets and fills the batches of a training run from them.
//
// Meet first: [Source], which gives one input of a model of all samples: a [Column] of numbers, of
// [Read] and [NewColumn], or of [ReadTexts]; [Pictures] in folders; [Noise]. [Order] is the order
// of an epoch.
//
// Files of numbers are .npy arrays, IDX files (LeCun's format of MNIST), and tables as .csv; files
// of texts have a sample a line and tabs between columns; each is packed by gzip or not. The first
// axis is that of the samples. Pictures are PNG and JPEG files in a folder for each class.
//
// Concurrency: a Source is not changed once it is made; several goroutines may fill from one.
//
// What it refuses: files that are damaged or hold something else ([ErrData]), labels that are no
// class, words that are no tokens, classes without a picture, and samples that do not have the
// elements that the model takes, each with the file, or the number of the first sample or line that
// is wrong.
package data
