package sse

import "time"

// SetLastWords bounds how long a stream still sends at a stop. It is for before any server runs.
func SetLastWords(d time.Duration) { finalSendTime = d }
