package settings

var (
	ScanLines = func(text string) map[string]int { return scanLines(text) }
	ChildPath = childPath
)
