package servefiles

// For what a file tree cannot show: tests may run as root, to whom no file is closed.
var (
	StatusOf       = statusOf
	Types          = types
	FolderLocation = folderLocation
)
