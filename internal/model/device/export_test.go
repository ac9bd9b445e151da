package device

// PrecisionOf returns what PRECISION stands for.
func PrecisionOf(s Settings) string { return s.precision() }
