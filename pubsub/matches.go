package pubsub

import "strings"

// Matches reports whether the messages of a topic are among those that are selected. It is for an
// Engine; topic is a name as the hub gives it to Publish.
func (s Selection) Matches(topic string) bool {
	if !s.Pattern {
		return topic == s.Name
	}
	pattern, words, left := s.Name, topic, true
	for left {
		want, rest, more := strings.Cut(pattern, ".")
		if want == allWords && !more {
			return true
		}
		var word string
		word, words, left = strings.Cut(words, ".")
		if want != anyWord && want != word {
			return false
		}
		if !more {
			return !left
		}
		pattern = rest
	}
	return false
}
