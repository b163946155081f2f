package tags_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/tags"
)

type limits struct {
	Wait  time.Duration `min:"1ms" max:"1h" default:"2s"`
	Rate  int           `min:"-1" max:"10" default:"5"`
	Size  conn.Size     `min:"1KiB" default:"2KiB"`
	Small int8
	Name  string `default:"n"`
	On    bool   `default:"true"`
	Kind  string `oneof:"a b"`
	Inner struct {
		Times int `toml:"times" default:"3"`
	} `toml:"inner"`
	Other struct{ Times int }
}

// TestListsAndPointers: both get a value of their own, and the struct of a field with default:"-"
// gets none.
func TestListsAndPointers(t *testing.T) {
	t.Parallel()
	type keys struct {
		Words []string   `toml:"words" default:"a  b"`
		Level *int       `toml:"level" default:"4"`
		Size  *conn.Size `toml:"size" default:"1KiB"`
		On    *bool      `toml:"on" default:"true"`
	}
	type outer struct {
		keys  `toml:",inline"`
		Inner keys `toml:"inner" default:"-"`
	}
	want := outer{keys: keys{[]string{"a", "b"}, new(4), new(conn.Size(1024)), new(true)}}
	if diff := cmp.Diff(want, tags.Defaults[outer](), cmp.AllowUnexported(outer{})); diff != "" {
		t.Error(diff)
	}
	v := keys{Words: []string{}, On: new(false)}
	got := tags.Or(v, tags.Defaults[keys]())
	if diff := cmp.Diff(keys{[]string{}, new(4), new(conn.Size(1024)), new(false)}, got); diff != "" {
		t.Error(diff)
	}
	tags.Fill(reflect.ValueOf(&v).Elem(), `default:"-"`)
	if v.Level != nil {
		t.Error("Fill sets a field")
	}
	if tags.Fill(reflect.ValueOf(&v).Elem(), ""); *v.Level != 4 {
		t.Error("Fill does not set a field")
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := limits{Wait: 2 * time.Second, Rate: 5, Size: 2048, Name: "n", On: true}
	want.Inner.Times = 3
	if got := tags.Defaults[limits](); got != want {
		t.Errorf("%+v", got)
	}
}

func TestOr(t *testing.T) {
	t.Parallel()
	got := tags.Or(limits{Rate: -1, Size: 7}, limits{Rate: 1, Wait: 1, Name: "x"})
	if want := (limits{Rate: -1, Size: 7, Wait: 1, Name: "x"}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestEmbedded: the fields of an embedded struct are as those of the struct around it.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	type config struct {
		limits
		Times int
	}
	to, by := config{limits{Wait: 1, Rate: 2}, 3}, config{limits: limits{Rate: -2}}
	tags.Override(&to, &by)
	if want := (config{limits{Wait: 1, Rate: -2}, 3}); to != want {
		t.Errorf("%+v", to)
	}
	if err := tags.Check(&to); err == nil {
		t.Error("Check does not see the embedded field Rate")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]limits{
		"<nil>":                                 {Rate: -1, Wait: time.Hour, Size: 1 << 50, Small: -3},
		"Kind: must be one of a b, found \"c\"": {Kind: "c"},
		"Wait: must be between 1ms and 1h, found 1ns":    {Wait: 1},
		"Wait: must be between 1ms and 1h, found -1s":    {Wait: -time.Second},
		"Rate: must be between -1 and 10, found 11":      {Rate: 11},
		"Size: must be at least 1KiB, found 1023B":       {Size: 1023},
		"Wait: must be between 1ms and 1h, found 2h0m0s": {Wait: 2 * time.Hour, Rate: 20},
	} {
		if got := fmt.Sprint(tags.Check(l)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestCheckWithin: structs that are keys are checked, too, wherever they are, and zeros if there
// should be defaults.
func TestCheckWithin(t *testing.T) {
	t.Parallel()
	type outer struct {
		Inner   limits   `toml:"inner"`
		Unset   limits   `toml:"unset" default:"-"`
		List    []limits `toml:"list"`
		Pointer *limits  `toml:"pointer"`
		NoKey   limits
	}
	for want, change := range map[string]func(o *outer){
		"<nil>": func(o *outer) { o.NoKey.Rate = 11 },
		"Inner.Rate: must be between -1 and 10, found 11":  func(o *outer) { o.Inner.Rate = 11 },
		"Inner.Wait: must be between 1ms and 1h, found 0s": func(o *outer) { o.Inner.Wait = 0 },
		"Unset.Rate: must be between -1 and 10, found 11":  func(o *outer) { o.Unset.Rate = 11 },
		"List[1].Rate: must be between -1 and 10, found 11": func(o *outer) {
			o.List = []limits{{}, {Rate: 11}}
		},
		"Pointer.Kind: must be one of a b, found \"c\"": func(o *outer) {
			o.Pointer = new(tags.Defaults[limits]())
			o.Pointer.Kind = "c"
		},
	} {
		o := tags.Defaults[outer]()
		change(&o)
		if got := fmt.Sprint(tags.CheckFilled(o)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
