package servefiles_test

import (
	"mime"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/handlers/servefiles"
)

func TestStatusOf(t *testing.T) {
	for err, want := range map[syscall.Errno]int{
		syscall.ENOENT:       404,
		syscall.ENOTDIR:      404,
		syscall.ELOOP:        404,
		syscall.EXDEV:        404,
		syscall.ENAMETOOLONG: 404,
		syscall.ENXIO:        404,
		syscall.EACCES:       403,
		syscall.EPERM:        403,
		syscall.EMFILE:       503,
		syscall.ENFILE:       503,
		syscall.ENOMEM:       503,
		syscall.EAGAIN:       503,
		syscall.EIO:          500,
	} {
		if got := servefiles.StatusOf(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

func TestTypes(t *testing.T) {
	for ext, mediaType := range servefiles.Types {
		if !strings.HasPrefix(ext, ".") || ext != strings.ToLower(ext) || strings.Count(ext, ".") != 1 {
			t.Errorf("%q would never be found", ext)
		}
		parsed, params, err := mime.ParseMediaType(mediaType)
		if err != nil || mime.FormatMediaType(parsed, params) != mediaType {
			t.Errorf("%s: %q is not written as media types are: %v", ext, mediaType, err)
		}
		if strings.HasPrefix(parsed, "text/") != (params["charset"] == "utf-8") {
			t.Errorf("%s: %q: text, and text alone, says that it is UTF-8", ext, mediaType)
		}
	}
}
