package lwangotest_test

import (
	"testing"

	"github.com/lwango/lwango/lwangotest"
)

func TestMain(m *testing.M) { lwangotest.Main(m) }
