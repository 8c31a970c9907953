package main

// The coefficients below are printed by the command in fit, lowest power first.

// greatest weighted error 3.1e-09
var expPoly = []float32{
	0.49999994,
	0.166665211,
	0.041668389,
	0.00836871006,
	0.00138146128,
}

// greatest weighted error 5.9e-09
var logPoly = []float32{
	0.333333164,
	-0.250008106,
	0.200022861,
	-0.166245535,
	0.141811922,
	-0.131287545,
	0.128816471,
	-0.0785961375,
}

// greatest weighted error 2.2e-08
var erfNear = []float32{
	0.128379151,
	-0.37612462,
	0.112814665,
	-0.0267533343,
	0.00497311726,
	-0.000588677649,
}

// greatest weighted error 3.1e-09
var erfFar = []float32{
	-0.128519952,
	-0.635699391,
	-0.105286852,
	0.0229060277,
	-0.00321997446,
	0.000214594897,
}
