package cpu

// lineBytes is the distance from which words that several threads write do not slow each other
// down: Apple's processors have lines of 128 bytes, others of arm64 fetch lines in pairs.
const lineBytes = 128
