// Package data reads data sets and fills the batches of a training run from them.
//
// Meet first: [Read] reads a file of samples; [NewColumn] makes one input of a model of it, of
// which [Column.Fill] writes chosen samples; [Order] is the order of an epoch.
//
// Files are .npy arrays, IDX files (LeCun's format of MNIST), and tables of numbers as .csv, each
// packed by gzip or not. The first axis is that of the samples.
//
// Concurrency: a Column is not changed once it is made.
//
// What it refuses: files that are damaged or hold something else ([ErrData]), labels that are no
// class, and samples that do not have the elements that the model takes, each with the number of
// the first sample that is wrong.
package data
