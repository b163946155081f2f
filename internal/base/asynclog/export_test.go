package asynclog

// Kinds is the number of messages that are told apart.
func Kinds(l *Log) int {
	l.rate.mu.Lock()
	defer l.rate.mu.Unlock()
	return len(l.rate.kinds)
}
