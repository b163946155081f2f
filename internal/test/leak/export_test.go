package leak

// Hurry makes the checks wait less for what is left behind.
func Hurry() (undo func()) {
	before := tries
	tries = 10
	return func() { tries = before }
}
